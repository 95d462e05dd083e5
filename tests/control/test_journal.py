"""The journal of a control loop: its disk may fail, and come back."""

import json
import logging

from penstock.control.journal import Journal
from penstock.rehearsal.compare_journals import is_journal, read_journal


def write(journal, batch):
    journal.write(
        "observation", operator="enrich", batch=str(batch), instance=0, busy_ms=5.0, records=1
    )


def test_a_journal_goes_on_when_its_disk_can_be_written_again(tmp_path, caplog):
    path = tmp_path / "journal"
    journal = Journal(path)
    write(journal, 0)
    kept = path.read_text()
    path.unlink()
    path.mkdir()  # Nothing can be appended to a folder, not even by root.
    with caplog.at_level(logging.WARNING, "penstock"):
        write(journal, 1)
        write(journal, 2)
        path.rmdir()
        path.write_text(kept + '{"time": 1')  # A full disk keeps a part of a line.
        write(journal, 3)
        write(journal, 4)
    assert [one["batch"] for one in journal.entries()] == ["0", "1", "2", "3", "4"]
    lines = path.read_text().splitlines()
    assert [json.loads(line)["batch"] for line in (lines[0], *lines[2:])] == ["0", "3", "4"]
    first, second = [one.getMessage() for one in caplog.records]
    assert "cannot be written for now" in first
    assert "lacks 2 entries" in second
    assert is_journal(path)
    assert read_journal(path).name == "enrich"

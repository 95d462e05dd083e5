"""The exact account of a query: every record of the truth once, nowhere or twice is a defect."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from faults.queries import KEPT_FOR_EVER, PER_FILE, consumed_files


@dataclass
class Account:
    """What became of the records.

    Attributes:
        lost: numbers of records that are nowhere.
        doubled: numbers of records that are in two places, or twice in one.
        wrong: other deviations, in words.
    """

    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)


def account(query: str, disk: Path, written: int, stats: dict, *, committed_before: int):
    """Compare everything that a query has left behind with the truth.

    Args:
        query: name of the query.
        disk: folder with everything that it has written.
        written: number of records that were written, 0, 1, 2, ...
        stats: counts of each operator in the newest driver process.
        committed_before: newest batch that was committed before that process started; -1 without.
    """
    places = _places(query, disk)
    found = sum(places.values(), Counter())
    truth = Counter(range(written))
    result = Account(
        lost=sorted((truth - found).elements()), doubled=sorted((found - truth).elements())
    )
    if "errors" in places:
        bad = [n for n in places["results"] if n % KEPT_FOR_EVER == 0]
        if bad:
            result.wrong.append(f"records on which the function fails have results: {bad[:5]}")
    received = None
    if query != "replay":  # replayed records are received again
        received = written - PER_FILE * len(_before(disk, committed_before))
    for name, counts in stats.items():
        result.wrong += _deviations(name, counts, received if name == "work" else None)
    if query in ("windows", "attached"):
        result.wrong += _deviations("numbers", stats["numbers"], received)
    return result


def _deviations(name: str, counts: dict | None, received: int | None) -> list[str]:
    if counts is None:
        return [f"{name} has no stats"] if received else []
    wrong = []
    if counts["received"] != counts["processed"] + counts["shed"] + counts["failed"]:
        wrong.append(f"received is not processed + shed + failed: {name} {counts}")
    if received is not None and counts["received"] != received:
        wrong.append(f"{name} has received {received} records, and counts {counts}")
    return wrong


def _places(query: str, disk: Path) -> dict[str, Counter]:
    places = {"results": _results(query, disk)}
    if query in ("letters", "all"):
        places["errors"] = Counter(_numbers(_visible(disk / "errors")))
    if query in ("shed", "replay", "all"):
        places["spill"] = Counter(_numbers(_visible(disk / "spill")))
    if query == "replay":
        consumed = consumed_files(disk / "checkpoint" / "sources" / "1")
        ready = [one for one in _visible(disk / "spill-replay") if one.name not in consumed]
        places["ready"] = Counter(_numbers(ready))
    return places


def _results(query: str, disk: Path) -> Counter:
    if query in ("windows", "attached", "all"):
        newest = {}
        for file in sorted((disk / "totals").glob("[0-9]*")):
            newest |= {(key, start): n for key, start, n in json.loads(file.read_text())}
        return Counter(n for numbers in newest.values() for n in numbers)
    return Counter(_numbers(_sunk(disk / "out")))


def _sunk(folder: Path) -> list[Path]:
    """The files of a file sink that its log names: others are of failed attempts."""
    logs = {int(one.name.split(".")[0]): one for one in _logs(folder)}
    compacted = [number for number, one in logs.items() if one.name.endswith(".compact")]
    first = max(compacted, default=-1)
    files = set()
    for number, log in logs.items():
        if number >= first:
            for line in log.read_text().splitlines()[1:]:
                files.add(folder / Path(json.loads(line)["path"]).name)
    return sorted(files)


def _logs(folder: Path) -> list[Path]:
    """Files of the sink's log; of a batch that has a compacted one, that one."""
    return sorted((folder / "_spark_metadata").glob("[0-9]*"), key=lambda one: len(one.name))


def _before(disk: Path, batch: int) -> set[str]:
    """Input files of the batches up to a committed one: a batch has one file."""
    if batch < 0:
        return set()
    text = (disk / "checkpoint" / "offsets" / str(batch)).read_text()
    newest = json.loads(text.splitlines()[2])["logOffset"]
    files = set()
    for log in (disk / "checkpoint" / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] <= newest:
                files.add(entry["path"])
    return files


def _visible(folder: Path) -> list[Path]:
    found = folder.rglob("*.parquet") if folder.exists() else []
    return [one for one in found if not one.name.startswith((".", "_"))]


def _numbers(files: list[Path]) -> list[int]:
    return [n for one in files for n in pq.ParquetFile(one).read(["n"])["n"].to_pylist()]

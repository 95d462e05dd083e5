"""Fixtures of commands, and of a file with policies of a user's own."""

import sys

import pytest
from own_policies import RANDOM

from penstock.cli import main


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process: it takes seconds to start another one."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


@pytest.fixture
def own(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(RANDOM)
    return file

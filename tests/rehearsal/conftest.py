"""Fixtures of traces."""

import pytest
from made import write_trace


@pytest.fixture
def folder(tmp_path):
    """A trace of eight batches on two executors with two slots each."""
    return write_trace(tmp_path / "trace")

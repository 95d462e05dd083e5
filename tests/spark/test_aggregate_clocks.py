"""Clocks are set back: windows and totals stay exact."""

import json

import pytest
from jobs_of import finished

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_clocks_that_are_set_back_mix_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    finished("clocks", tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())
    start = 1_699_160_400
    assert found["times"] == [[start + 900 * i, 1] for i in range(16)]
    assert found["windows"] == [[start + 1800 * i, 2] for i in range(8)]

"""The page about guarantees has the results of all runs of the engine."""

import importlib.util
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def test_the_page_has_the_table_of_all_runs():
    spec = importlib.util.spec_from_file_location("update", GUIDE / "update_guarantees.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page(), "run: python docs/guide/update_guarantees.py"

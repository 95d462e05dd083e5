"""Write the table of tried faults into `guarantees.md`, from the results in `guarantees.jsonl`.

`python -m faults --results FILE` appends a line for each run. Run this script afterwards.
"""

import json
import textwrap
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
PAGE, RESULTS = HERE / "guarantees.md", HERE / "guarantees.jsonl"
BEGIN, END = "<!-- table: update_guarantees.py -->", "<!-- end of table -->"


def table(runs: list[dict]) -> str:
    """Return the faults of all runs by kind, and the sum of what they have cost."""
    kinds: Counter[str] = Counter()
    for run in runs:
        kinds.update(run["kinds"])
    rows = [f"| {kind} | {times:,} |" for kind, times in sorted(kinds.items())]
    lost, doubled = (sum(run[name] for run in runs) for name in ("lost", "doubled"))
    schedules, defects = (sum(run[name] for run in runs) for name in ("schedules", "defects"))
    dates = sorted({run["date"] for run in runs})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    seeds = ", ".join(str(run["seed"]) for run in runs)
    total = (
        f"{sum(kinds.values()):,} faults in {schedules:,} schedules: {lost:,} records lost, "
        f"{doubled:,} doubled, {defects:,} schedules with any defect ({when}; first seeds {seeds})."
    )
    return "\n".join(["| fault | times |", "| --- | --- |", *rows, "", textwrap.fill(total, 100)])


def page() -> str:
    """Return the page with the newest table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    runs = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return f"{before}{BEGIN}\n{table(runs)}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())

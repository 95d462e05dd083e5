"""Command lines, goals, tables and files that all benchmarks share."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = Path("penstock-out")


class Options:
    """The command line of a benchmark.

    Every benchmark has `--json` and `--quick`. Its sizes have two values: one for measurements, and
    a quick one that only shows that the benchmark runs. A test runs all of them with `--quick`.

    Args:
        name: name of the benchmark and of its results.
        description: module docstring of the benchmark, shown by `--help`.
    """

    def __init__(self, name: str, description: str | None) -> None:
        self.parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.parser.add_argument("--json", type=Path, help="file for the results")
        self.parser.add_argument(
            "--quick", action="store_true", help="run in smallest sizes; the numbers mean nothing"
        )
        self._name = name
        self._sizes: dict[str, tuple[float, float]] = {}

    def size(self, name: str, full: float, quick: float, *, meaning: str) -> None:
        """Add an option for a size.

        Args:
            name: name of the size, with underscores.
            full: value for measurements.
            quick: value with `--quick`.
            meaning: help text.
        """
        self._sizes[name] = full, quick
        self.parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(full),
            help=f"{meaning}; {full:,} by default, {quick:,} with --quick",
        )

    def parse(self) -> argparse.Namespace:
        """Return the arguments; sizes that are not given get their default."""
        args = self.parser.parse_args()
        for name, (full, quick) in self._sizes.items():
            if getattr(args, name) is None:
                setattr(args, name, quick if args.quick else full)
        if args.json is None:
            args.json = OUT / (f"{self._name}-quick.json" if args.quick else f"{self._name}.json")
        if args.quick:
            Console().print("quick: numbers mean nothing")
        return args


@dataclass(frozen=True)
class Goal:
    """A limit that a number should keep.

    Attributes:
        limit: the limit.
        upper: whether the number should be at most the limit; otherwise at least.
    """

    limit: float
    upper: bool

    def __str__(self) -> str:
        return f"{'<=' if self.upper else '>='} {self.limit:g}"

    def reached_by(self, number: float) -> bool:
        """Return whether a number keeps the limit."""
        return number <= self.limit if self.upper else number >= self.limit


def at_most(limit: float) -> Goal:
    return Goal(limit, upper=True)


def at_least(limit: float) -> Goal:
    return Goal(limit, upper=False)


def goal_columns(goal: Goal | None, number: float) -> tuple[str, str]:
    """Return the cells of a table for a goal, and for whether a number reaches it."""
    return ("", "") if goal is None else (str(goal), yes_or_no(goal.reached_by(number)))


def yes_or_no(answer: bool) -> str:
    return "yes" if answer else "no"


def new_table(
    title: str, labels: Sequence[str], numbers: Sequence[str], *, long_labels: bool = False
) -> Table:
    """Return an empty table.

    Args:
        title: title of the table.
        labels: headings of the first columns, aligned to the left.
        numbers: headings of the other columns, aligned to the right.
        long_labels: whether a label may take several lines.
    """
    table = Table(title=title)
    for heading in labels:
        table.add_column(heading, no_wrap=not long_labels, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def write_report(target: Path, report: Any) -> None:
    """Write results as JSON."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=1) + "\n")


def best_s(run: Callable[[], object], runs: int) -> float:
    """Return the shortest time of several runs, after one that is not timed: it compiles."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)

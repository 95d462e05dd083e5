"""Results in one form: rows with means and errors, and the paper's claims beside ours."""

import json
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import PenstockError


@dataclass(frozen=True)
class Row:
    """One point of a figure: the mean over streams, its standard error, and the extremes."""

    figure: str
    series: str
    x: float | str
    metric: str
    mean: float
    se: float
    n: int
    min: float
    max: float


@dataclass(frozen=True)
class Claim:
    """What a paper says, what we measure, and whether that is so."""

    claim: str
    paper: float | str
    ours: float | str
    holds: bool


# What sums of floating-point numbers may be off.
_ROUNDING = 1e-9


def at_least(claim: str, paper: float, ours: float) -> Claim:
    """Claim that something is as large as the paper says, or larger."""
    return Claim(claim, paper, _shown(ours), bool(ours >= paper * (1 - _ROUNDING)))


def at_most(claim: str, limit: float, ours: float) -> Claim:
    """Claim that something is as small as the paper or the goal says, or smaller."""
    return Claim(claim, limit, _shown(ours), bool(ours <= limit * (1 + _ROUNDING)))


def _shown(number: float) -> float:
    return float(f"{number:.4g}")


class Table:
    """All rows of an experiment, to be looked up by claims."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self._by_key = {(r.series, r.x, r.metric): r for r in self.rows}

    @classmethod
    def of_samples(
        cls, figure: str, samples: Iterable[tuple[str, float | str, str, float]]
    ) -> "Table":
        """Average samples over streams."""
        values: dict[tuple[str, float | str, str], list[float]] = defaultdict(list)
        for series, x, metric, value in samples:
            values[series, x, metric].append(value)
        return cls(_row(figure, *key, np.array(found)) for key, found in values.items())

    def row(self, series: str, x: float | str, metric: str) -> Row:
        """Return one point."""
        return self._by_key[series, x, metric]

    def mean(self, series: str, x: float | str, metric: str = "speedup") -> float:
        """Mean of one point."""
        return self.row(series, x, metric).mean

    def means(self, series: str, metric: str = "speedup") -> dict[float | str, float]:
        """Means of a series over x."""
        return {r.x: r.mean for r in self.rows if (r.series, r.metric) == (series, metric)}

    def series(self) -> list[str]:
        """Names of the series, in their order."""
        return list(dict.fromkeys(r.series for r in self.rows))


def _row(
    figure: str, series: str, x: float | str, metric: str, found: "np.typing.NDArray[np.float64]"
) -> Row:
    error = float(found.std(ddof=1)) / math.sqrt(found.size) if found.size > 1 else 0.0
    extremes = float(found.min()), float(found.max())
    return Row(figure, series, x, metric, float(found.mean()), error, found.size, *extremes)


def as_document(
    name: str, params: dict[str, Any], table: Table, claims: list[Claim]
) -> dict[str, Any]:
    """Return the JSON form of a result."""
    return {
        "name": name,
        "params": params,
        "rows": [asdict(row) for row in table.rows],
        "claims": [asdict(claim) for claim in claims],
    }


def write_json(document: dict[str, Any], path: Path) -> None:
    """Write a result whole or not at all."""
    write_whole(path, json.dumps(document, indent=1).encode() + b"\n")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name, and give it its own when it is complete."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def writable_folder(name: str, path: Path) -> Path:
    """Make a folder and try to write there, before any work is done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise PenstockError(
            f"{name} must be a folder that can be written; got {str(path)!r} ({error.strerror})"
        ) from None
    return path

"""Results in one form: rows with means and errors, and claims."""

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
from penstock.experiments.claims import Claim


@dataclass(frozen=True)
class Row:
    """One point of a figure: mean over streams, standard error, number of streams, extremes."""

    figure: str
    series: str
    x: float | str
    metric: str
    mean: float
    se: float
    n: int
    min: float
    max: float


class Table:
    """All rows of an experiment, in which claims look up their numbers."""

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
        return cls(
            _row(figure, series=series, x=x, metric=metric, found=np.array(found))
            for (series, x, metric), found in values.items()
        )

    def row(self, series: str, x: float | str, metric: str) -> Row:
        """Return one point of the figure."""
        return self._by_key[series, x, metric]

    def mean(self, series: str, x: float | str, metric: str = "speedup") -> float:
        """Return the mean of one point."""
        return self.row(series, x, metric).mean

    def means(self, series: str, metric: str = "speedup") -> dict[float | str, float]:
        """Return the means of a series, by x."""
        return {r.x: r.mean for r in self.rows_of(series, metric)}

    def rows_of(self, series: str, metric: str) -> list[Row]:
        """Return all points of a series."""
        return [r for r in self.rows if (r.series, r.metric) == (series, metric)]

    def series(self) -> list[str]:
        """Return the names of all series, in their order."""
        return list(dict.fromkeys(r.series for r in self.rows))


def _row(
    figure: str,
    *,
    series: str,
    x: float | str,
    metric: str,
    found: "np.typing.NDArray[np.float64]",
) -> Row:
    error = float(found.std(ddof=1)) / math.sqrt(found.size) if found.size > 1 else 0.0
    return Row(
        figure=figure,
        series=series,
        x=x,
        metric=metric,
        mean=float(found.mean()),
        se=error,
        n=found.size,
        min=float(found.min()),
        max=float(found.max()),
    )


def as_document(
    name: str, params: dict[str, Any], *, table: Table, claims: list[Claim], date: str = ""
) -> dict[str, Any]:
    """Return the JSON form of a result; the date is that of the run."""
    return {
        "name": name,
        "date": date,
        "params": params,
        "rows": [asdict(row) for row in table.rows],
        "claims": [asdict(claim) for claim in claims],
    }


def write_json(document: dict[str, Any], path: Path) -> None:
    """Write a result to a file: completely, or not at all."""
    write_whole(path, json.dumps(document, indent=1).encode() + b"\n")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, and rename it when it is complete."""
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
    """Create a folder and check that it is writable, before any work is done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise PenstockError(
            f"{name} must be a folder that can be written; got {str(path)!r} ({error.strerror})"
        ) from None
    return path

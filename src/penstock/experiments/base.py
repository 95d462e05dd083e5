"""An experiment: a figure of a paper, as a grid of cells that can run on any machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.experiments.claims import Claim
from penstock.experiments.results import Table
from penstock.policies import Policy
from penstock.policies.grouping import Grouping

X = float | str


class Sample(NamedTuple):
    """One number that was measured on one stream."""

    series: str
    x: X
    metric: str
    value: float


def samples(series: str, x: X, numbers: Mapping[str, float]) -> list[Sample]:
    """Return one sample for each metric.

    Example:
        >>> samples("posg", 5, {"speedup": 1.2})
        [Sample(series='posg', x=5, metric='speedup', value=1.2)]
    """
    return [
        Sample(series=series, x=x, metric=metric, value=float(value))
        for metric, value in numbers.items()
    ]


# Functions that make the user's own policies, by series. A grouping is made from the number of
# instances, a shedder from its target, a scaler from the largest degree, a placer from its budget.
Extra = dict[str, Callable[[Any], Any]]

# Draws one stream from (x, seed), runs all series on it, and returns all its numbers.
Run = Callable[[X, int, Extra], list[Sample]]


@dataclass(frozen=True)
class Experiment:
    """A figure of a paper.

    Attributes:
        name: name of the experiment on the command line.
        figure: paper, and number of the figure there.
        summary: one line on the figure, at most 40 characters long.
        x_label: label of the x axis.
        xs: values of x.
        run: function that draws one stream from (x, seed) and returns all its numbers. It runs on
            executors, or on the driver if it starts Spark queries of its own.
        claims: function that compares the paper's statements with the table of results.
        details: further settings of the figure, in a few words.
        streams: default number of streams to average over.
        on_driver: whether `run` starts Spark queries of its own.
        master: default Spark master.
        main_metric: metric to print.
        metrics: metrics to plot, one panel each.
        part: meaning of a number at the end of a metric's name, such as "{} workers".
        params: parameters that were held constant, for the record.
        family: family of the policies that are compared.
        depends_on_machine: results that another machine would change; empty if there are none.
    """

    name: str
    figure: str
    summary: str
    x_label: str
    xs: Sequence[X]
    run: Run
    claims: Callable[[Table], list[Claim]]
    details: str = ""
    streams: int = 100
    on_driver: bool = False
    master: str = "local[*]"
    main_metric: str = "speedup"
    metrics: tuple[str, ...] = ("speedup", "steady_speedup", "completion_ms")
    part: str = "{}"
    params: dict[str, object] = field(default_factory=dict)
    family: type[Policy] = Grouping
    depends_on_machine: str = ""

    @property
    def title(self) -> str:
        """Figure, summary and details in one line."""
        shown = f"{self.figure}: {self.summary}"
        return f"{shown} ({self.details})" if self.details else shown

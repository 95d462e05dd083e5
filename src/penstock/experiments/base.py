"""An experiment: a figure of a paper, as a grid of cells that can be run anywhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.experiments.results import Claim, Table
from penstock.policies import Policy
from penstock.policies.grouping import Grouping

X = float | str


class Sample(NamedTuple):
    """One number that one stream gave."""

    series: str
    x: X
    metric: str
    value: float


# The user's own policies by the name of their series: groupings are made from the number of
# instances, shedders from the target.
Extra = dict[str, Callable[[Any], Any]]


@dataclass(frozen=True)
class Experiment:
    """A figure of a paper.

    Attributes:
        name: what it is called on the command line.
        figure: of which paper, and its number there.
        summary: one line.
        x_label: what the x axis shows.
        xs: the values of x.
        run: makes one stream from (x, seed) and returns all its numbers; runs on executors, or
            on the driver if it starts Spark queries of its own.
        claims: compares the paper's statements with the table of results.
        streams: how many streams to average over, unless told otherwise.
        on_driver: whether `run` starts Spark queries of its own.
        master: where to run, unless told otherwise.
        main_metric: the one to print and to plot first.
        metrics: those to plot.
        params: what was held constant, for the record.
        family: of the policies that are compared.
    """

    name: str
    figure: str
    summary: str
    x_label: str
    xs: Sequence[X]
    run: Callable[[X, int, Extra], list[Sample]]
    claims: Callable[[Table], list[Claim]]
    streams: int = 100
    on_driver: bool = False
    master: str = "local[*]"
    main_metric: str = "speedup"
    metrics: tuple[str, ...] = ("speedup", "steady_speedup", "completion_ms")
    params: dict[str, object] = field(default_factory=dict)
    family: type[Policy] = Grouping

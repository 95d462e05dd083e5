"""`penstock reproduce`: the papers' figures."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from penstock.cli.console import errors, output
from penstock.cli.own import load, make
from penstock.errors import PenstockError
from penstock.experiments import EXPERIMENTS, Experiment, Extra
from penstock.experiments.results import writable_folder, write_json, write_whole
from penstock.experiments.runner import run
from penstock.plots import draw
from penstock.plots.figures import COLOURS
from penstock.policies.shedding import average
from penstock.policies.validation import known, whole
from penstock.spark.environment import java_version
from penstock.spark.lab.bulk import by_value
from penstock.spark.lab.sessions import checked_master

PATH = click.Path(path_type=Path)


@click.command
@click.argument("name", required=False)
@click.option("--list", "list_", is_flag=True, help="List the experiments.")
@click.option("--streams", type=int, help="Streams to average over.  [default: see --list]")
@click.option("--json", type=PATH, help="Write the result to this file.")
@click.option("--out", type=PATH, help="Write the result and its plot to this folder.")
@click.option("--master", help="Where the Spark job runs.  [default: local, enough slots]")
@click.option("--seed", default=0, help="Seed of the first stream.")
@click.option(
    "--grouping",
    multiple=True,
    help="A grouping of your own as another series: module:Class or file.py:Class.",
)
@click.option(
    "--shedder",
    multiple=True,
    help="A shedder of your own as another series of las-*: module:Class or file.py:Class.",
)
@click.option(
    "--scaler",
    multiple=True,
    help="A scaler of your own as another series of autoscale-*: module:Class or file.py:Class.",
)
@click.option(
    "--placer",
    multiple=True,
    help="A placer of your own as another series of milp-* and albic-*: module:Class.",
)
def reproduce(
    name: str | None,
    list_: bool,
    streams: int | None,
    json: Path | None,
    out: Path | None,
    master: str | None,
    seed: int,
    grouping: tuple[str, ...],
    shedder: tuple[str, ...],
    scaler: tuple[str, ...],
    placer: tuple[str, ...],
) -> None:
    """Run a figure of a paper and compare its claims with what we measure.

    Example: penstock reproduce posg-provisioning --streams 20 --out penstock-out
    """
    if list_ or name is None:
        _list()
        return
    experiment = EXPERIMENTS[known("experiment", name, EXPERIMENTS)]
    if streams is not None:
        whole("--streams", streams, least=1)
    whole("--seed", seed, least=0)
    if out is not None:
        writable_folder("--out", out)
    if json is not None and json.is_dir():
        raise PenstockError(f"--json must be a file; got the folder {str(json)!r}")
    if json is not None:
        writable_folder("--json: its folder", json.parent)
    own = {"grouping": grouping, "shedder": shedder, "scaler": scaler, "placer": placer}
    extra = _own(experiment, own)
    checked_master(master or experiment.master)
    java_version()
    with _progress(experiment) as progress:
        document = run(
            experiment, streams=streams, seed=seed, master=master, extra=extra, progress=progress
        )
    _print(experiment, document)
    if json is not None:
        write_json(document, json)
        errors.print(f"result: {json}", soft_wrap=True)
    if out is not None:
        _write(experiment, document, out)


# What a policy of the user's own is tried with before anything runs.
_TRIALS: dict[str, object] = {
    "grouping": 5,
    "shedder": average("6.4 ms"),
    "scaler": 8,
    "placer": 10,
}


def _own(experiment: Experiment, specs: dict[str, tuple[str, ...]]) -> Extra:
    right = experiment.family.family
    for wrong, given in specs.items():
        if given and wrong != right:
            raise PenstockError(
                f"--{wrong}: {experiment.name} compares {right}s; use --{right}, or another "
                "experiment"
            )
    extra: Extra = {}
    for spec in specs[right]:
        cls = load(spec, experiment.family)
        by_value(cls)
        make(cls, _TRIALS[right])  # one that fails should fail here
        series = str(vars(cls).get("name") or cls.__name__)
        if series in COLOURS or series in extra:
            raise PenstockError(f"{right}: the name {series!r} is taken; choose another one")
        extra[series] = partial(make, cls)
    return extra


def _list() -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("name", "figure", "streams", "what it shows"):
        table.add_column(column)
    for experiment in EXPERIMENTS.values():
        streams = str(experiment.streams)
        table.add_row(experiment.name, experiment.figure, streams, experiment.summary)
    output.print(table)


@contextmanager
def _progress(experiment: Experiment) -> Iterator[Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors) as bar:
        task = bar.add_task(f"{experiment.name}: starting Spark", total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=experiment.name)

        yield update


def _print(experiment: Experiment, document: dict[str, Any]) -> None:
    output.print(f"\n[bold]{experiment.figure}[/]: {experiment.summary}")
    output.print(f"{experiment.main_metric}, mean over {document['params']['streams']} streams\n")
    output.print(_means(experiment, document))
    output.print()
    output.print(_claims(document))


def _means(experiment: Experiment, document: dict[str, Any]) -> Table:
    rows = [r for r in document["rows"] if r["metric"] == experiment.main_metric]
    series = list(dict.fromkeys(r["series"] for r in rows))
    table = Table(box=None, pad_edge=False)
    table.add_column(experiment.x_label)
    for one in series:
        table.add_column(one, justify="right")
    xs = list(dict.fromkeys(r["x"] for r in rows))
    for x in xs[:: max(1, len(xs) // 25)]:
        means = {r["series"]: r["mean"] for r in rows if r["x"] == x}
        table.add_row(str(x), *(f"{means[s]:.3f}" for s in series))
    return table


def _claims(document: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("claim")
    table.add_column("paper or goal", justify="right")
    table.add_column("ours", justify="right")
    table.add_column("holds")
    for claim in document["claims"]:
        holds = "[green]yes[/]" if claim["holds"] else "[red]no[/]"
        table.add_row(claim["claim"], _number(claim["paper"]), _number(claim["ours"]), holds)
    return table


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}" if value < 1000 else f"{value:,.0f}"


def _write(experiment: Experiment, document: dict[str, Any], folder: Path) -> None:
    title = f"{experiment.figure}: {experiment.summary}"
    image = draw(document, title, experiment.x_label, experiment.metrics)
    write_json(document, folder / f"{experiment.name}.json")
    write_whole(folder / f"{experiment.name}.png", image)
    errors.print(f"result and plot: {folder / experiment.name}.json and .png", soft_wrap=True)

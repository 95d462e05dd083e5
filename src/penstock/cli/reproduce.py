"""`penstock reproduce`: figures of the papers."""

import json as json_module
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from penstock.cli.console import blocks, columns, errors, output
from penstock.cli.folders import refuse_unwritable
from penstock.cli.own import load, make
from penstock.errors import PenstockError
from penstock.experiments import EXPERIMENTS, Experiment, Extra
from penstock.experiments.results import writable_folder, write_json, write_whole
from penstock.experiments.runner import run
from penstock.experiments.series import SERIES
from penstock.experiments.tables import markdown, shown, stored
from penstock.extras import needs
from penstock.policies.shedding import average
from penstock.policies.validation import known, whole
from penstock.spark.environment import java_version
from penstock.spark.lab.bulk import by_value
from penstock.spark.lab.sessions import checked_master

PATH = click.Path(path_type=Path)


@click.command
@click.argument("name", required=False)
@click.option("--list", "list_", is_flag=True, help="List all experiments, or describe NAME.")
@click.option("--streams", type=int, help="Streams to average over.  [default: see --list]")
@click.option("--json", type=PATH, help="File for the result.")
@click.option(
    "--table",
    type=PATH,
    multiple=True,
    help="Print the claims of a stored result, or of a folder of them, in Markdown.",
)
@click.option("--out", type=PATH, help="Folder for the result and its plot.")
@click.option("--master", help="Spark master.  [default: local, with enough slots]")
@click.option("--seed", default=0, help="Seed of the first stream.")
@click.option(
    "--grouping",
    multiple=True,
    help="Your own grouping as another series: module:Class or file.py:Class.",
)
@click.option(
    "--shedder",
    multiple=True,
    help="Your own shedder as another series of las-*: module:Class or file.py:Class.",
)
@click.option(
    "--scaler",
    multiple=True,
    help="Your own scaler as another series of autoscale-*: module:Class or file.py:Class.",
)
@click.option(
    "--placer",
    multiple=True,
    help="Your own placer as another series of milp-* and albic-*: module:Class or file.py:Class.",
)
def reproduce(
    name: str | None,
    *,
    list_: bool,
    streams: int | None,
    json: Path | None,
    table: tuple[Path, ...],
    out: Path | None,
    master: str | None,
    seed: int,
    grouping: tuple[str, ...],
    shedder: tuple[str, ...],
    scaler: tuple[str, ...],
    placer: tuple[str, ...],
) -> None:
    """Run a figure of a paper, and check the claims of the paper.

    Example: penstock reproduce posg-provisioning --streams 20 --out results
    """
    if table:
        _tables(table)
        return
    if name is None:
        _list()
        return
    experiment = EXPERIMENTS[known("experiment", name, EXPERIMENTS)]
    if list_:
        _describe(experiment)
        return
    if streams is not None:
        whole("--streams", streams, least=1)
    whole("--seed", seed, least=0)
    if out is not None:
        refuse_unwritable("--out", out)
        needs("matplotlib", extra="plots", what="--out")
    if json is not None and json.is_dir():
        raise PenstockError(f"--json must be a file; got the folder {str(json)!r}")
    if json is not None:
        refuse_unwritable("--json: its folder", json.parent)
    own = {"grouping": grouping, "shedder": shedder, "scaler": scaler, "placer": placer}
    extra = _own(experiment, own)
    checked_master(experiment.master if master is None else master)
    java_version()
    with _progress(experiment) as progress:
        document = run(
            experiment, streams=streams, seed=seed, master=master, extra=extra, progress=progress
        )
    # Neither an error of the disk nor one of the terminal may cost the result of a long run.
    try:
        if json is not None:
            writable_folder("--json: its folder", json.parent)
            write_json(document, json)
            errors.print(f"result: {json}", markup=False, soft_wrap=True)
        if out is not None:
            _write(experiment, document, out)
    finally:
        _print(experiment, document)


# Values that the user's own policies are made with once, before anything runs.
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
        make(cls, _TRIALS[right])  # a class that cannot be made should fail here
        series = str(vars(cls).get("name") or cls.__name__)
        if series in SERIES or series in extra:
            raise PenstockError(f"{right}: the name {series!r} is taken; choose another one")
        extra[series] = partial(make, cls)
    return extra


def _list() -> None:
    rows = [
        (experiment.name, experiment.summary, str(experiment.streams))
        for experiment in EXPERIMENTS.values()
    ]
    output.print(columns(("name", "what it shows", "streams"), rows, left=2))
    output.print("\nDescribe one of them: penstock reproduce NAME --list")


def _describe(experiment: Experiment) -> None:
    output.print(experiment.title, markup=False)
    rows = [
        ("x axis", experiment.x_label),
        ("metrics", ", ".join(experiment.metrics)),
        ("streams", str(experiment.streams)),
        ("master", experiment.master),
        *((name, str(value)) for name, value in experiment.params.items()),
    ]
    output.print(columns(("setting", "value"), rows, left=2))


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
    count = document["params"]["streams"]
    output.print()
    output.print(Text(experiment.title, style="bold"))
    output.print(f"{experiment.main_metric}, mean over {count} streams\n", markup=False)
    _print_means(experiment, document)
    output.print(_claims(document))


def _print_means(experiment: Experiment, document: dict[str, Any]) -> None:
    """Print a table of means, in several blocks if it is wider than the terminal."""
    rows = [r for r in document["rows"] if r["metric"] == experiment.main_metric]
    xs = list(dict.fromkeys(r["x"] for r in rows))
    if all(isinstance(x, int | float) for x in xs):
        xs.sort()
    xs = xs[:: max(1, len(xs) // 25)]
    means = {(r["series"], r["x"]): f"{r['mean']:.3f}" for r in rows}
    series = list(dict.fromkeys(r["series"] for r in rows))

    def cell(one: str, x: object) -> str:
        # Where a shedder has dropped all records, a series has no mean.
        return means.get((one, x), "")

    widths = [max(len(one), *(len(cell(one, x)) for x in xs)) for one in series]
    first = max(len(experiment.x_label), *(len(str(x)) for x in xs))
    for block in blocks(widths, room=output.width - first):
        shown = series[block.start : block.stop]
        cells = [[str(x), *(cell(one, x) for one in shown)] for x in xs]
        output.print(columns((experiment.x_label, *shown), cells))
        output.print()


def _claims(document: dict[str, Any]) -> Table:
    """Return a table of claims: the paper's values and our goals are in two columns."""
    rows = [
        (
            Text("yes", style="green") if claim["holds"] else Text("no", style="red"),
            _statement(claim),
            shown(claim["paper"]),
            shown(claim["goal"]),
            shown(claim["ours"]),
        )
        for claim in document["claims"]
    ]
    return columns(("holds", "claim", "paper", "goal", "ours"), rows, left=2)


def _statement(claim: dict[str, Any]) -> str:
    """Return a claim with its source and its tolerance."""
    notes = [] if claim["source"] is None else [claim["source"]]
    if claim["tolerance"] is not None:
        notes.append(f"tolerance {shown(claim['tolerance'])}")
    return f"{claim['claim']} ({'; '.join(notes)})" if notes else str(claim["claim"])


def _tables(paths: tuple[Path, ...]) -> None:
    """Print the claims of stored results in Markdown."""
    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])
    ]
    if not files:
        raise PenstockError(f"--table must have results (*.json); got {str(paths[0])!r}")
    for file in files:
        click.echo(_stored_table(file))


def _stored_table(path: Path) -> str:
    try:
        return markdown([stored(json_module.loads(path.read_text()))])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise PenstockError(f"--table must be a result of --json; got {str(path)!r}") from None


def _write(experiment: Experiment, document: dict[str, Any], folder: Path) -> None:
    # Imported here: a run without --out does not need matplotlib.
    from penstock.plots import draw  # noqa: PLC0415

    writable_folder("--out", folder)
    write_json(document, folder / f"{experiment.name}.json")
    image = draw(
        document,
        experiment.title,
        experiment.x_label,
        metrics=experiment.metrics,
        part=experiment.part,
    )
    write_whole(folder / f"{experiment.name}.png", image)
    written = f"result and plot: {folder / experiment.name}.json and .png"
    errors.print(written, markup=False, soft_wrap=True)

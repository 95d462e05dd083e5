"""`penstock demo`: a stream with Spark's own shuffle, and with Penstock."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

import penstock
from penstock import __version__
from penstock.cli.console import columns, errors, output
from penstock.experiments import batch_trials
from penstock.experiments import demo as job
from penstock.experiments.results import writable_folder, write_whole
from penstock.extras import needs
from penstock.policies.validation import whole
from penstock.spark.environment import java_version

_STORY = (
    f"A stream of {job.RECORDS} records a batch goes through an operator with {job.INSTANCES} "
    "slots. The cost of a record depends on its key, and varies within a key: most records take a "
    "few milliseconds, some take a second. Here the operator sleeps, as if it waited for a "
    "database (latency-bound)."
)
_CONTENDERS = (
    "Spark's repartition gives every task the same number of records, and the batch waits for the "
    "task with the expensive ones. Penstock learns the costs of keys while the stream runs. "
    "Records that may take long start first, and small tasks at the end fill idle slots."
)
_CAPTION = (
    f"A typical micro-batch of {job.RECORDS} records on Spark (local[{job.INSTANCES}]). "
    "The operator sleeps (latency-bound)."
)


@click.command
@click.option(
    "--out", type=click.Path(path_type=Path), default="penstock-out", help="Folder for the report."
)
@click.option("--batches", default=job.BATCHES, help="Micro-batches of each of the two runs.")
@click.option("--watch", is_flag=True, help="Serve a live page of the run on this machine.")
def demo(out: Path, batches: int, watch: bool) -> None:
    """Compare Spark's own shuffle with Penstock on one stream."""
    whole("--batches", batches, least=2)
    writable_folder("--out", out)
    needs("matplotlib", extra="plots", what="the report")
    java_version()
    output.print(f"\n{_STORY}\n\n{_CONTENDERS}\n")
    with _progress() as progress:
        comparison = job.run(
            batches=batches, progress=progress, started=_serve if watch else lambda: None
        )
    rows = comparison.table()
    table = columns(list(rows[0]), [list(row.values()) for row in rows])
    output.print(f"Batches after {comparison.warm_up} batches of learning:\n")
    output.print(table)
    gain = comparison.speedup()
    factor = f"{gain:.2f} times faster" if gain >= 1 else f"{1 / gain:.2f} times slower"
    verdict = f"Batches are {factor} with Penstock."
    output.print(f"\n[bold]{verdict}[/]")
    _write(out, comparison, verdict)
    if watch and sys.stdin.isatty():
        click.pause("\nThe live page stays until you press a key.", err=True)


def _serve() -> None:
    """Serve a live page until the process ends."""
    url = penstock.dashboard(show_keys=True).url
    errors.print(f"Watch the stream: {url}", markup=False, soft_wrap=True)


@contextmanager
def _progress() -> Iterator[batch_trials.Progress]:
    shown = (
        TextColumn("{task.description:<16}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("batches"),
        TimeElapsedColumn(),
    )
    with Progress(*shown, console=errors) as bar:
        tasks: dict[str, TaskID] = {}
        starting = bar.add_task("starting Spark", total=None)

        def progress(name: str, done: int, total: int) -> None:
            bar.update(starting, visible=False)
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done)

        yield progress


def _write(out: Path, comparison: job.Comparison, verdict: str) -> None:
    # Imported here: other commands do not need matplotlib.
    from penstock.plots import draw_batches, draw_busy_tasks, page  # noqa: PLC0415

    trials = comparison.trials
    image = draw_batches(
        [trial.name for trial in trials],
        [trial.duration_ms for trial in trials],
        [trial.busy_ms for trial in trials],
        ideal_ms=comparison.ideal_ms,
        title=f"{verdict} Operator that sleeps (latency-bound), {job.INSTANCES} instances",
    )
    typical = comparison.typical()
    busy = draw_busy_tasks(
        [f"Spark's {job.SPARK}", "penstock.balance"],
        [trial.busy_ms[typical] for trial in trials],
        [float(trial.duration_ms[typical]) for trial in trials],
        ideal_ms=float(comparison.ideal_ms[typical]),
        caption=_CAPTION,
    )
    html = page(
        "The same stream, distributed in two ways",
        [_STORY, _CONTENDERS, verdict],
        comparison.table(),
        image=image,
        footer=f"Made by `penstock demo`, Penstock {__version__}.",
    )
    write_whole(out / "demo.png", image)
    write_whole(out / "busy.png", busy)
    write_whole(out / "demo.html", html)
    report = (out / "demo.html").resolve().as_uri()
    output.print(f"\nOpen the report: {report}", markup=False, soft_wrap=True)

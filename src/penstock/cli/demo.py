"""`penstock demo`: the main job, in front of your eyes."""

from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock import __version__
from penstock.cli.console import errors, output
from penstock.experiments import demo as job
from penstock.experiments.results import writable_folder, write_whole
from penstock.plots import draw_batches, page
from penstock.policies.validation import whole
from penstock.spark.environment import java_version

_STORY = (
    f"A stream of {job.RECORDS} records a batch goes through an operator with {job.INSTANCES} "
    "parallel tasks. What a record costs depends on its key: most take a few milliseconds, some "
    "take a second. Here the operator sleeps, as if it waited for a database (latency-bound)."
)
_WAYS = (
    "Spark's repartition gives every task the same number of records, and the batch waits for the "
    "task that got the expensive ones. Penstock learns what keys cost while the stream runs, and "
    "gives every task the same amount of work."
)


@click.command
@click.option(
    "--out", type=click.Path(path_type=Path), default="penstock-out", help="Folder for the report."
)
@click.option("--batches", default=job.BATCHES, help="Micro-batches for each of the two runs.")
def demo(out: Path, batches: int) -> None:
    """Run a stream with Spark's own shuffle, then with Penstock, and compare."""
    whole("--batches", batches, least=2)
    writable_folder("--out", out)
    java_version()
    output.print(f"\n{_STORY}\n\n{_WAYS}\n")
    columns = (
        TextColumn("{task.description:<26}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("batches"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors) as bar:
        tasks: dict[str, object] = {}
        starting = bar.add_task("starting Spark", total=None)

        def progress(name: str, done: int, total: int) -> None:
            bar.update(starting, visible=False)
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done)  # type: ignore[arg-type]

        comparison = job.run(batches=batches, progress=progress)
    rows = comparison.table()
    table = Table(title=f"after {comparison.warm_up} batches of learning")
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "way" else "right")
    for row in rows:
        table.add_row(*row.values())
    output.print(table)
    gain = comparison.speedup()
    told = f"{gain:.2f} times faster" if gain >= 1 else f"{1 / gain:.2f} times slower"
    verdict = f"Batches are {told} with Penstock."
    output.print(f"\n[bold]{verdict}[/]")
    _write(out, comparison, rows, verdict)


def _write(out: Path, comparison: job.Comparison, rows: list[dict[str, str]], verdict: str) -> None:
    trials = comparison.trials
    title = f"{verdict} Operator that sleeps (latency-bound), {job.INSTANCES} instances"
    image = draw_batches(
        [trial.name for trial in trials],
        [trial.duration_ms for trial in trials],
        [trial.busy_ms for trial in trials],
        comparison.ideal_ms,
        title,
    )
    footer = f"Made by `penstock demo`, Penstock {__version__}."
    text = [_STORY, _WAYS, verdict]
    html = page("The same stream, shared out in two ways", text, rows, image, footer)
    write_whole(out / "demo.png", image)
    write_whole(out / "demo.html", html)
    output.print(f"\nOpen the report: {(out / 'demo.html').resolve().as_uri()}", soft_wrap=True)

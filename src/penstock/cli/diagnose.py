"""`penstock diagnose`: what is slow in a Spark job, and why, from its event log."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from penstock import __version__
from penstock.cli.console import errors, output
from penstock.cli.folders import refuse_unwritable
from penstock.cli.remote import at_hand
from penstock.cli.summary import summary
from penstock.errors import PenstockError
from penstock.experiments.results import write_whole
from penstock.extras import needs

if TYPE_CHECKING:
    from penstock.diagnosis import Diagnosis, LogFiles

# Logs from this size on get a progress bar.
_LONG_BYTES = 20e6


@click.command
@click.argument("path", required=False)
@click.option("--url", help="Pages of a running application, such as http://127.0.0.1:4040.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="File for the results.")
@click.option("--html", type=click.Path(path_type=Path), help="File for a page with pictures.")
@click.option("--queries", default=3, help="Queries of a log that are printed.")
def diagnose(
    path: str | None,
    *,
    url: str | None,
    json_file: Path | None,
    html: Path | None,
    queries: int,
) -> None:
    """Find out what is slow in a Spark job, and why.

    PATH is an event log (spark.eventLog.enabled=true), the folder of a rolling log, or a folder
    with several logs. It is on this machine, or on any file system that Spark knows (hdfs://...).
    The job needs no change and no Penstock. Instead of PATH, --url takes the pages of an
    application that runs.
    """
    if (path is None) == (url is None):
        raise PenstockError("give either PATH, an event log, or --url, a running application")
    for name, file in (("--json", json_file), ("--html", html)):
        if file is not None:
            _refuse_folder(name, file)
    if html is not None:
        needs("matplotlib", extra="plots", what="the page")
    found = [_running(url)] if url is not None else _logged(path or "")
    for number, one in enumerate(found):
        output.print("" if number == 0 else "\n", end="")
        summary(one, most=queries)
    if json_file is not None:
        write_whole(json_file, (json.dumps(_document(found), indent=1) + "\n").encode())
    if html is not None:
        from penstock.plots.diagnosis import diagnosis_page  # noqa: PLC0415

        footer = f"Made by `penstock diagnose`, Penstock {__version__}."
        write_whole(html, diagnosis_page(found, footer=footer))
        output.print(f"\nOpen the page: {html.resolve().as_uri()}", markup=False, soft_wrap=True)


def _running(url: str) -> "Diagnosis":
    """Diagnose a running application."""
    from penstock.diagnosis import diagnose as diagnosed  # noqa: PLC0415
    from penstock.diagnosis.rest import read_url  # noqa: PLC0415

    return diagnosed(read_url(url))


def _logged(path: str) -> "list[Diagnosis]":
    """Diagnose event logs; files that are none are skipped, and reported."""
    # Imported here: other commands do not need msgspec.
    from penstock.diagnosis import find_logs  # noqa: PLC0415

    with at_hand(path) as local:
        found, failed = _read_all(find_logs(Path(local)))
    if not found:
        raise PenstockError(failed[0])
    for reason in failed:
        errors.print(f"skipped: {reason}", markup=False, soft_wrap=True)
    return found


def _refuse_folder(name: str, file: Path) -> None:
    if file.is_dir():
        raise PenstockError(f"{name} must be a file; {str(file)!r} is a folder")
    refuse_unwritable(f"the folder of {name}", file.parent)


def _read_all(logs: "list[LogFiles]") -> "tuple[list[Diagnosis], list[str]]":
    """Read and diagnose logs; in a folder, files that are no event logs are skipped."""
    from penstock.diagnosis import diagnose as diagnosed  # noqa: PLC0415
    from penstock.diagnosis import read_log  # noqa: PLC0415

    found, failed = [], []
    with _progress(sum(log.size for log in logs)) as count:
        for log in logs:
            try:
                found.append(diagnosed(read_log(log, count)))
            except PenstockError as error:
                failed.append(str(error))
    return found, failed


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    if total < _LONG_BYTES:
        yield lambda _: None
        return
    shown = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*shown, console=errors, transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda size: bar.update(task, advance=size)


def _document(found: "list[Diagnosis]") -> dict[str, Any]:
    """Return one document for all logs; every query names its application."""
    documents = [one.document() for one in found]
    return {
        "applications": [
            {name: one[name] for name in ("application", "spark", "notes")} for one in documents
        ],
        "queries": [
            {**query, "application": one["application"]}
            for one in documents
            for query in one["queries"]
        ],
    }

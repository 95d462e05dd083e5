"""Paths that users give to commands: local ones, or URLs of any file system that Spark knows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from penstock.cli.console import errors
from penstock.spark.paths import is_url


def local_path(path: str) -> str:
    """Return a `file:` URL as the path that it names, and all else unchanged.

    Example:
        >>> local_path("file:///mnt/my%20logs"), local_path("hdfs://n/x"), local_path("logs")
        ('/mnt/my logs', 'hdfs://n/x', 'logs')
    """
    return unquote(urlsplit(path).path) if path.startswith("file:/") else path


@contextmanager
def at_hand(path: str) -> Iterator[str]:
    """Yield a local path; what is elsewhere is copied through Spark, and deleted at the end.

    Args:
        path: local path, or URL of a file system that Spark knows.
    """
    local = local_path(path)
    if not is_url(local):
        yield local
        return
    # Imported here: it starts Spark.
    from penstock.spark.lab.remote_files import copied  # noqa: PLC0415

    with TemporaryDirectory(prefix="penstock-copy-") as folder:
        errors.print(f"copying {local} through Spark", markup=False, soft_wrap=True)
        yield str(copied(local, Path(folder)))

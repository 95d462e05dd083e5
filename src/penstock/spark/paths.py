"""Paths that users give: folders of this machine, or URLs of any file system."""

import re
from pathlib import Path

# One letter before the colon is a drive of Windows.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_url(path: str) -> bool:
    """Whether a path names its file system.

    Example:
        >>> [is_url(one) for one in ("s3://bucket/x", "hdfs:/data", "file:///mnt/x", "/mnt/x", "x")]
        [True, True, True, False, False]
    """
    return _URL.match(path) is not None


def absolute(path: str) -> str:
    """Return a folder as executors can find it: they have other working folders."""
    return path.rstrip("/") if is_url(path) else str(Path(path).absolute())


def path_of_spark(path: str) -> str:
    """Return a path as Spark spells it: Arrow's s3:// is Spark's s3a://."""
    return f"s3a://{path.removeprefix('s3://')}" if path.startswith("s3://") else path

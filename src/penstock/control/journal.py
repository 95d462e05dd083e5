"""The journal: observations, plans with their reasons, and outcomes, as JSON lines."""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.policies.validation import whole

log = logging.getLogger("penstock")

KEPT = 1_000


class Journal:
    """Keeps the last entries in memory and, given a path, all of them in rotated files.

    Args:
        path: file to append to; None keeps entries in memory only.
        max_bytes: size at which a file is rotated.
        files: number of old files that are kept (`path.1` is the newest of them).

    Example:
        >>> journal = Journal()
        >>> journal.write("plan", operator="enrich", reason="longest first")
        >>> journal.entries()[-1]["reason"]
        'longest first'
    """

    def __init__(
        self, path: Path | str | None = None, max_bytes: int = 10_000_000, files: int = 5
    ) -> None:
        if path is not None and "://" in str(path):
            raise PenstockError(
                f"journal must be a file of this machine; got {str(path)!r}. Write it to a local "
                "file, and copy that"
            )
        self.path = Path(path) if path is not None else None
        self.max_bytes = whole("max_bytes", max_bytes, least=1_000)
        self.files = whole("files", files, least=1)
        self._entries: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._unwritten = 0
        self._lock = threading.Lock()
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.open("a").close()
            except OSError as error:
                raise PenstockError(
                    f"journal must be a file that can be written; got {str(path)!r} ({error})"
                ) from None

    def write(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - any JSON value
        """Append an entry with the time of writing."""
        entry = {"time": round(time.time(), 3), "kind": kind, **fields}
        with self._lock:
            self._entries.append(entry)
            if self.path is not None:
                self._keep(self.path, json.dumps(entry) + "\n")

    def warn(self, query: str, reason: str) -> None:
        """Warn about a query, in the log and in the journal."""
        log.warning("%s: %s", query, reason)
        self.write("warning", query=query, reason=reason)

    def entries(self) -> list[dict[str, Any]]:
        """Return the last entries, oldest first."""
        with self._lock:
            return list(self._entries)

    def newest(self, kinds: Collection[str], count: int) -> list[dict[str, Any]]:
        """Return the newest entries of some kinds, the newest first.

        Example:
            >>> journal = Journal()
            >>> journal.write("plan", reason="longest first")
            >>> journal.write("observation", busy_ms=3.0)
            >>> [one["reason"] for one in journal.newest({"plan"}, count=5)]
            ['longest first']
        """
        with self._lock:
            wanted = (one for one in reversed(self._entries) if one["kind"] in kinds)
            return list(islice(wanted, count))

    def _keep(self, path: Path, line: str) -> None:
        """Append a line; a full disk must not stop the loop, and may have room again later."""
        try:
            self._append(path, line)
        except OSError as error:
            if self._unwritten == 0:
                log.warning("the journal %s cannot be written for now: %s", path, error)
            self._unwritten += 1
            return
        if self._unwritten:
            log.warning("the journal %s lacks %d entries; it goes on", path, self._unwritten)
            self._unwritten = 0

    def _append(self, path: Path, line: str) -> None:
        if path.exists() and path.stat().st_size + len(line) > self.max_bytes:
            for number in range(self.files - 1, 0, -1):
                older = path.with_name(f"{path.name}.{number}")
                if older.exists():
                    older.replace(path.with_name(f"{path.name}.{number + 1}"))
            path.replace(path.with_name(f"{path.name}.1"))
        with path.open("a") as file:
            # A disk that was full may have kept the first half of a line.
            file.write(f"\n{line}" if self._unwritten and file.tell() else line)

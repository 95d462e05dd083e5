"""Snapshots on executors: one Python worker asks the driver, and the others share its answer.

The workers of an executor share files in Spark's local folder, which Spark removes at the end. So
the driver answers each executor once for each batch, and an unreachable driver delays one worker of
an executor, not all of them.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from penstock.control.reports import TaskId
from penstock.spark.channel import Address, Answer, RefusedError, fetch

try:
    import fcntl
except ImportError:  # a system without file locks: workers may ask the driver at the same time
    fcntl = None  # type: ignore[assignment]

# After a failure an executor does not ask the driver for a while, each time for longer: waiting for
# an answer would delay every task.
BACK_OFF_S = 5.0
MOST_BACK_OFF_S = 300.0
# Answers of an operator that are kept: tasks of these batches may still run again.
_KEPT = 4
_LOCK = ".lock"
# Note of an operator for which the driver has no answers.
_REFUSED = ".refused"


class Answers:
    """The driver's answers to the routers of one executor.

    Args:
        address: address of the driver.
        folder: folder that the executor's workers share.
    """

    def __init__(self, address: Address, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._note = folder / "silent"

    def get(self, task: TaskId) -> Answer:
        """Return the driver's answer for the batch of a task; raise OSError without an answer.

        A batch that runs again in another run of its query is announced to the driver. A task that
        does not know its run always asks: a stored answer may be of an earlier run.
        """
        own = self._folder / _name(task.operator, task.query)
        own.mkdir(parents=True, exist_ok=True)
        file = own / _name(task.batch, task.run)
        with _locked(own / _LOCK):
            found = _read(file) if task.run or not task.query else None
            if found is None:
                found = self._ask(task, own)
                _write(file, found)
                for old in _answers(own)[:-_KEPT]:
                    old.unlink(missing_ok=True)
            return found

    def wanted(self, task: TaskId) -> tuple[int, ...]:
        """Return the keys whose names are wanted, if a router here has stored an answer."""
        file = self._folder / _name(task.operator, task.query) / _name(task.batch, task.run)
        try:
            with file.open("rb") as lines:  # policies may be large: the first line is enough
                return tuple(map(int, json.loads(lines.readline())["wanted"]))
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    def _ask(self, task: TaskId, own: Path) -> Answer:
        """Ask the driver, unless it did not answer a moment ago, or has refused."""
        refused = own / _REFUSED
        for note, words in ((self._note, "did not answer"), (refused, "had no answer")):
            until_s, _ = _silence(note)
            if time.time() < until_s:
                where = f"{self._address.host}:{self._address.port}"
                raise ConnectionError(f"the driver {words} at {where} a moment ago")
        newest = _read(_answers(own)[-1]) if _answers(own) else None
        request = {
            "operator": task.operator,
            "query": task.query,
            "batch": task.batch,
            "run": task.run,
        }
        try:
            answer = fetch(self._address, request, newest.snapshot if newest else None)
        except RefusedError:
            _pause(refused)  # other operators still get answers
            raise
        except OSError:
            _pause(self._note)
            raise
        for note in (self._note, refused):
            note.unlink(missing_ok=True)
        return answer


def shared_folder(address: Address) -> Path:
    """Return the folder that the Python workers of this executor share for an application."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    folder = Path(local) / f"penstock-{hashlib.sha256(address.key).hexdigest()[:16]}"
    if local:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            return folder
    return Path(tempfile.mkdtemp(prefix="penstock-"))  # of this worker alone


def _silence(note: Path) -> tuple[float, float]:
    """Return the time until which the driver is not asked, and how long the next pause is."""
    with contextlib.suppress(OSError, ValueError):
        until_s, back_off_s = map(float, note.read_text().split())
        return until_s, back_off_s
    return 0.0, BACK_OFF_S


def _pause(note: Path) -> None:
    """Write a note that the driver is not asked for a while."""
    _, back_off_s = _silence(note)
    until_s, next_s = time.time() + back_off_s, min(2 * back_off_s, MOST_BACK_OFF_S)
    with contextlib.suppress(OSError):
        _replace(note, f"{until_s} {next_s}".encode())


def _name(*parts: str) -> str:
    """Return the name of a file for any text."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a lock that other workers of the executor wait for."""
    with file.open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(file: Path) -> Answer | None:
    """Return a stored answer; None if there is none that can be used."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        header, packed = file.read_bytes().split(b"\n", 1)
        return Answer.of(json.loads(header), packed)
    return None


def _write(file: Path, answer: Answer) -> None:
    """Store an answer whole or not at all; a full disk costs other workers a request each."""
    with contextlib.suppress(OSError):
        header = json.dumps(answer.header()).encode()
        _replace(file, header + b"\n" + answer.snapshot.packed)


def _replace(file: Path, data: bytes) -> None:
    hidden = file.with_name(f".{uuid.uuid4().hex}")
    try:
        hidden.write_bytes(data)
        hidden.replace(file)
    finally:
        hidden.unlink(missing_ok=True)


def _answers(own: Path) -> list[Path]:
    """Return the stored answers of an operator, the newest last."""
    files = [one for one in own.iterdir() if not one.name.startswith(".")]
    return sorted(files, key=lambda one: one.stat().st_mtime_ns)

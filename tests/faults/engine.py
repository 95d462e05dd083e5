"""The engine: a cluster, a driver process, a query, its source, and the faults that hit them."""

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from faults.accounts import Account, account
from faults.queries import INSTANCES, PER_FILE, record
from faults.schedules import Fault, Schedule
from penstock.spark.lab import StandaloneCluster
from penstock.spark.lab.clusters import descendants, python_workers_under

if TYPE_CHECKING:
    from faults.hosts import HostCluster

TESTS = Path(__file__).parents[1]
# A query without a commit for so long hangs. A driver needs some seconds to start.
HANG_S = 150.0
_AHEAD = 4
_DISK_MB = 48


class HangError(Exception):
    """The query makes no progress."""


class DriverProcess:
    """A driver in a process of its own, which can be killed.

    Args:
        master: master of its application.
        log: file for everything that it prints.
        host: address of the driver.
        before: words before the command, which run it on another host.
    """

    def __init__(self, master: str, log: Path, *, host: str, before: list[str]) -> None:
        reading, writing = os.pipe()
        self._answers: queue.Queue[dict] = queue.Queue()
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        with log.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own driver
                [*before, sys.executable, "-m", "faults.driver", master, host, str(writing)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[writing],
                env=environment,
                start_new_session=True,
            )
        os.close(writing)
        threading.Thread(target=self._read, args=(reading,), daemon=True).start()
        self._answer(HANG_S)

    def _read(self, reading: int) -> None:
        with os.fdopen(reading) as lines:
            for line in lines:
                self._answers.put(json.loads(line))
        self._answers.put({"error": "the driver process has ended"})

    def _answer(self, wait_s: float) -> object:
        try:
            answer = self._answers.get(timeout=wait_s)
        except queue.Empty:
            raise HangError(f"the driver does not answer in {wait_s:g} s") from None
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer.get("result")

    def send(self, do: str, *, wait_s: float = HANG_S, **arguments: object) -> object:
        """Send a command, and return its result."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self.process.stdin.flush()
        return self._answer(wait_s)

    def kill(self) -> None:
        """Kill Python and its JVM: they are a session of their own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


class Source:
    """Writes files of records ahead of the query, one for each batch."""

    def __init__(self, folder: Path, committed) -> None:
        self._folder, self._committed = folder, committed
        folder.mkdir(parents=True)
        self._start = datetime(2026, 1, 1, tzinfo=UTC)
        self.jump: timedelta | None = timedelta()
        self.files = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def records(self) -> int:
        return PER_FILE * self.files

    def end(self) -> None:
        """Write no more files."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            if self.files <= self._committed() + _AHEAD:
                self._write()

    def _write(self) -> None:
        numbers = range(self.records, self.records + PER_FILE)
        lines = (json.dumps(record(n, self._start, self.jump)) for n in numbers)
        hidden = self._folder / f".{self.files:06}.json"
        hidden.write_text("\n".join(lines))
        moment = 1_700_000_000 + self.files
        os.utime(hidden, (moment, moment))
        hidden.rename(self._folder / f"{self.files:06}.json")
        self.files += 1


class Disk:
    """A small disk of its own for everything that a query writes, if the user may mount one."""

    def __init__(self, folder: Path, *, mounts: bool) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        size = f"-osize={_DISK_MB}m"
        self.mounted = mounts and can_mount() and _mount("-t", "tmpfs", size, "tmpfs", folder)

    def fill(self) -> bool:
        """Leave no byte free; return whether that worked: the disk may be read-only."""
        with contextlib.suppress(OSError), (self.folder / "ballast").open("wb", 0) as file:
            while True:
                file.write(b"\0" * 65_536)
        return (self.folder / "ballast").exists()

    def read_only(self) -> bool:
        """Refuse all writing; return whether that worked: no file may be open for writing."""
        for _ in range(50):
            if _mount("-o", "remount,ro", self.folder):
                return True
            time.sleep(0.02)
        return False

    def heal(self) -> None:
        if self.mounted:
            _mount("-o", "remount,rw", self.folder)
        (self.folder / "ballast").unlink(missing_ok=True)

    def remove(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", self.folder], check=True)  # noqa: S603, S607


def can_mount() -> bool:
    """Whether this process may mount a disk."""
    return sys.platform == "linux" and os.geteuid() == 0


def _mount(*arguments: object) -> bool:
    command = ["mount", *map(str, arguments)]
    return not subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603


class Engine:
    """A cluster that lives as long as the engine, and one driver process after the other.

    Args:
        folder: folder for everything that is written.
        cluster: cluster of several hosts; one on this host by default.
    """

    def __init__(self, folder: Path | None = None, cluster: "HostCluster | None" = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="penstock-faults-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "driver.log"
        self.hosts = cluster.hosts if cluster is not None else None
        self.workers = cluster.workers if cluster is not None else []
        self._cluster = cluster or StandaloneCluster(1, cores=INSTANCES, memory_mb=3_072)
        self._driver: DriverProcess | None = None
        self.hit: Counter[str] = Counter()
        self.restarts = 0

    def __enter__(self) -> "Engine":
        self._cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self._driver.kill()
        self._cluster.stop()

    @property
    def driver(self) -> DriverProcess:
        if self._driver is None:
            host, before = "127.0.0.1", []
            if self.hosts is not None:
                host, before = self._cluster.driver_host, self.hosts.inside("driver")
            self._driver = DriverProcess(self._cluster.url, self.log, host=host, before=before)
        return self._driver

    def kill_driver(self) -> None:
        if self._driver is not None:
            self._driver.kill()
            self._driver = None

    def executors(self) -> list[int]:
        """Processes of executors, the oldest first: descendants of this engine's own workers."""
        backend = b"CoarseGrainedExecutorBackend"
        workers = {one.pid for one in self._cluster._processes}
        return [pid for pid, command in descendants(workers) if backend in command]

    def python_workers(self) -> list[int]:
        """Processes of Python workers, without the daemons that start them."""
        return python_workers_under(self.executors())

    def run(self, schedule: Schedule) -> Account:
        """Run a schedule, and return the account of its query."""
        name = f"{schedule.query}-{schedule.seed}-"
        place = Path(tempfile.mkdtemp(prefix=name, dir=self.folder))
        run = Run(self, schedule, place)
        try:
            found = run.to_its_end()
        except HangError as hang:
            self.kill_driver()
            found = Account(wrong=[f"hang: {hang}"])
        except Exception as error:
            # A campaign of hours goes on, and reports it.
            self.kill_driver()
            found = Account(wrong=[f"{type(error).__name__}: {error}"])
        finally:
            run.end()
        if found.exact:
            shutil.rmtree(place, ignore_errors=True)
        return found


class Run:
    """One query and the faults of one schedule."""

    def __init__(self, engine: Engine, schedule: Schedule, place: Path) -> None:
        self.engine, self.schedule, self.place = engine, schedule, place
        # Processes on other hosts do not see what is mounted later.
        self.disk = Disk(place / "disk", mounts=engine.hosts is None)
        self.source = Source(place / "in", self.committed)
        self._committed_before = -1
        self._begun = False
        self.healing: list[tuple[float, object]] = []

    @property
    def checkpoint(self) -> Path:
        return self.disk.folder / "checkpoint"

    def committed(self) -> int:
        """Number of the newest committed batch; -1 without one."""
        names = (one.name for one in (self.checkpoint / "commits").glob("[0-9]*"))
        return max(map(int, names), default=-1)

    def begin(self) -> None:
        """Start the query in a new or in the present driver process."""
        driver = self.engine.driver
        self._committed_before = self.committed()
        driver.send("begin", query=self.schedule.query, place=str(self.place))

    def progress(self) -> None:
        """Wait for the next commit."""
        before, end = self.committed(), time.monotonic() + HANG_S
        while self.committed() <= before:
            if time.monotonic() > end:
                raise HangError(f"no commit in {HANG_S:g} s: {self.engine.driver.send('state')}")
            time.sleep(0.03)
            self.heal_due()

    def later(self, seconds: float, heal) -> None:
        """End a fault after a while."""
        self.healing.append((time.monotonic() + seconds, heal))

    def heal_due(self, *, all_of_them: bool = False) -> None:
        due = [one for one in self.healing if all_of_them or one[0] <= time.monotonic()]
        self.healing = [one for one in self.healing if one not in due]
        for _, heal in due:
            heal()

    def to_its_end(self) -> Account:
        from faults.hands import HANDS

        self.begin()
        self.progress()
        for fault in self.schedule.faults:
            self._pause(fault.wait_s)
            if HANDS[fault.kind](self, fault.number):
                self.engine.hit[fault.kind] += 1
            if not fault.overlaps:
                while self.healing:
                    self._pause(0.05)
                self.progress()
        self.heal_due(all_of_them=True)
        self.source.end()
        driver = self.engine.driver
        driver.send("scale", executors=INSTANCES)
        ended = driver.send("finish")
        self.engine.restarts += ended["restarts"]
        return account(
            self.schedule.query,
            self.disk.folder,
            self.source.records,
            ended["stats"],
            committed_before=self._committed_before,
        )

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.heal_due()
            time.sleep(0.02)

    def end(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(Exception):
            self.heal_due(all_of_them=True)
        self.source.end()
        if self.disk.mounted:
            kept = self.place / "kept"
            with contextlib.suppress(OSError):
                shutil.copytree(self.disk.folder, kept)
            self.disk.remove()


__all__ = ["Engine", "Fault", "HangError", "Run", "can_mount"]

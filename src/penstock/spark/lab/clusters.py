"""A standalone Spark cluster on one machine, for tests and examples."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import pyspark

from penstock.errors import PenstockError
from penstock.policies.validation import whole
from penstock.spark.environment import java_version
from penstock.spark.lab.service import Service

_HOST = "127.0.0.1"
_START_S = 300.0
_MASTER = "org.apache.spark.deploy.master.Master"
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_WORKER = "org.apache.spark.deploy.worker.Worker"


class StandaloneCluster(Service):
    """A master and some workers: processes that listen on the loopback address only.

    The cluster is made from the installed PySpark. Workers start executors when an application
    requests them; a worker has room for as many executors as its cores allow.

    Args:
        workers: number of workers.
        cores: number of cores of each worker; they may be more than the machine has.
        memory_mb: memory of each worker.

    Example:
        >>> with StandaloneCluster(workers=4) as cluster:  # doctest: +SKIP
        ...     spark = penstock.spark.lab.session(cluster.url)
    """

    def __init__(self, workers: int = 4, cores: int = 1, memory_mb: int = 1024) -> None:
        self.workers = whole("workers", workers, least=1)
        self.cores = whole("cores", cores, least=1)
        self.memory_mb = whole("memory_mb", memory_mb, least=512)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.url = ""

    def start(self) -> Self:
        """Start the master and the workers, and wait until the workers have registered."""
        java_version()
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-cluster-")
        port = free_port()
        self.url = f"spark://{_HOST}:{port}"
        try:
            self._launch("master", _MASTER, "--host", _HOST, "--port", str(port))
            self._wait_for("master", "New state: ALIVE")
            size = "--cores", str(self.cores), "--memory", f"{self.memory_mb}m"
            for number in range(self.workers):
                name = f"worker{number}"
                folder = str(Path(self._folder.name) / name)
                self._launch(name, _WORKER, "--host", _HOST, *size, "--work-dir", folder, self.url)
            for number in range(self.workers):
                self._wait_for(f"worker{number}", "Successfully registered with master")
        except BaseException:
            self.stop()
            raise
        return self

    def executor_processes(self) -> list[int]:
        """Return the processes of executors, for example to kill one; Linux only."""
        return [one for process in self._processes for one in executors_under(process.pid)]

    def stop(self) -> None:
        """End all processes, and remove their files."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _launch(self, name: str, main: str, *arguments: str) -> None:
        command = Path(pyspark.__file__).parent / "bin" / "spark-class"
        environment = {
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            # The script becomes the JVM, so that ending the process ends the JVM.
            "SPARK_NO_DAEMONIZE": "1",
        }
        with self._log(name).open("wb") as output:
            self._processes.append(
                subprocess.Popen(  # noqa: S603 - Spark's own launcher
                    [str(command), main, "--webui-port", "0", *arguments],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                )
            )

    def _log(self, name: str) -> Path:
        if self._folder is None:
            raise PenstockError("the cluster is not running; start() it first")
        return Path(self._folder.name) / f"{name}.log"

    def _wait_for(self, name: str, sign: str) -> None:
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            if sign in self._log(name).read_text(errors="replace"):
                return
            if any(process.poll() is not None for process in self._processes):
                break
            time.sleep(0.1)
        last = self._log(name).read_text(errors="replace").strip().splitlines()[-3:]
        raise PenstockError(
            f"the cluster's {name} did not start (it has {_START_S:g} s): {' '.join(last)}"
        )


def executors_under(pid: int) -> list[int]:
    """Return the executor processes among the descendants of a process; Linux only."""
    return [one for one, command in descendants({pid}) if _EXECUTOR in command]


def python_workers_under(executors: list[int]) -> list[int]:
    """Return the Python workers of executor processes, without their daemons; Linux only."""
    daemons = {pid for pid, command in descendants({*executors}) if b"daemon" in command}
    return [pid for pid, _ in descendants(daemons)]


def descendants(ancestors: set[int]) -> list[tuple[int, bytes]]:
    """Return the processes below some processes, with their command lines; Linux only."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # A process may end while its files are read.
            with contextlib.suppress(OSError):
                status = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes()
                parents[int(entry.name)] = int(status.rsplit(")", 1)[1].split()[1])
                commands[int(entry.name)] = command

    def below(one: int) -> bool:
        while one in parents:
            one = parents[one]
            if one in ancestors:
                return True
        return False

    return [(one, command) for one, command in sorted(commands.items()) if below(one)]


def free_port() -> int:
    """Return a port of the loopback address that nobody uses."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])

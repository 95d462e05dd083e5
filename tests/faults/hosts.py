"""Hosts of our own: network namespaces on one bridge, with a standalone cluster on them.

It needs root on Linux, `ip` and `nft`. Nothing but these hosts is ever addressed.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark

from faults.engine import can_mount

_START_S = 120.0
_PORT = 7077
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


def why_not() -> str:
    """The reason why hosts cannot be made here; empty if they can."""
    if not can_mount():
        return "hosts need root on Linux"
    missing = [name for name in ("ip", "nft") if shutil.which(name) is None]
    if missing:
        return f"hosts need the command {missing[0]}"
    name = f"pk{os.getpid() % 100_000}-try"
    if not _run("ip", "netns", "add", name, check=False):
        return "hosts need the right to make network namespaces"
    _run("ip", "netns", "delete", name)
    return ""


def _run(*words: object, check: bool = True) -> bool:
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return not done.returncode


class Hosts:
    """Hosts with an address each on a bridge that has no way to any other network.

    Args:
        names: names of the hosts.
        ipv6: whether addresses are of IPv6 only.
    """

    def __init__(self, *names: str, ipv6: bool = False) -> None:
        self._mark = f"pk{os.getpid() % 100_000}"
        self.names, self._ipv6 = names, ipv6
        self._bridge = f"{self._mark}br"

    def space(self, name: str) -> str:
        """The network namespace of a host."""
        return f"{self._mark}-{name}"

    def address(self, name: str) -> str:
        number = self.names.index(name) + 1
        return f"fd00:9e::{number:x}" if self._ipv6 else f"10.199.77.{number}"

    def __enter__(self) -> "Hosts":
        try:
            _run("ip", "link", "add", self._bridge, "type", "bridge")
            _run("ip", "link", "set", self._bridge, "up")
            for number, name in enumerate(self.names):
                self._add(name, f"{self._mark}v{number}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add(self, name: str, cable: str) -> None:
        space = self.space(name)
        _run("ip", "netns", "add", space)
        _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        _run("ip", "link", "set", cable, "master", self._bridge, "up")
        more = ("nodad",) if self._ipv6 else ()
        width = 64 if self._ipv6 else 24
        _run(*self.inside(name), "ip", "address", "add", f"{self.address(name)}/{width}",
             "dev", "eth0", *more)  # fmt: skip
        for device in ("lo", "eth0"):
            _run(*self.inside(name), "ip", "link", "set", device, "up")

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            _run("ip", "netns", "delete", self.space(name), check=False)
        _run("ip", "link", "delete", self._bridge, check=False)

    def inside(self, name: str) -> list[str]:
        """The words before a command that runs on a host."""
        return ["ip", "netns", "exec", self.space(name)]

    def link(self, name: str, state: str) -> None:
        """Set the link of a host up or down."""
        _run(*self.inside(name), "ip", "link", "set", "eth0", state)
        if state == "up" and self._ipv6:  # the address goes with the link
            _run(*self.inside(name), "ip", "address", "replace", f"{self.address(name)}/64",
                 "dev", "eth0", "nodad")  # fmt: skip

    def drop(self, name: str, *rule: object) -> None:
        """Let a host drop packets that come in and fit a rule of nftables."""
        inside = self.inside(name)
        _run(*inside, "nft", "add", "table", "inet", "faults")
        hook = "{ type filter hook input priority 0 ; }"
        _run(*inside, "nft", "add", "chain", "inet", "faults", "in", hook)
        _run(*inside, "nft", "add", "rule", "inet", "faults", "in", *rule, "drop")

    def pass_all(self, name: str) -> None:
        """Let a host drop nothing any more."""
        _run(*self.inside(name), "nft", "delete", "table", "inet", "faults", check=False)


class HostCluster:
    """A standalone master, workers and a driver, each on a host of its own.

    It has the parts of `penstock.spark.lab.StandaloneCluster` that the engine uses.
    """

    def __init__(self, workers: int = 3, *, ipv6: bool = False) -> None:
        self.workers = [f"w{number}" for number in range(workers)]
        self.hosts = Hosts("driver", "master", *self.workers, ipv6=ipv6)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-hosts-")
        self._stack = contextlib.ExitStack()

    def _written(self, name: str) -> str:
        address = self.hosts.address(name)
        return f"[{address}]" if ":" in address else address

    @property
    def url(self) -> str:
        return f"spark://{self._written('master')}:{_PORT}"

    @property
    def driver_host(self) -> str:
        return self._written("driver")

    def start(self) -> "HostCluster":
        self._stack.enter_context(self.hosts)
        try:
            self._launch("master", _MASTER, "--port", str(_PORT))
            self._wait_for("master", "New state: ALIVE")
            for name in self.workers:
                folder = str(Path(self._folder.name) / name)
                size = "--cores", "1", "--memory", "1024m"
                self._launch(name, _WORKER, *size, "--work-dir", folder, self.url)
            for name in self.workers:
                self._wait_for(name, "Successfully registered with master")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes.clear()
        self._stack.close()
        self._folder.cleanup()

    def _launch(self, name: str, main: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        address = self._written(name)
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": address,
            "SPARK_LOCAL_HOSTNAME": address,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        if ":" in address:
            environment["SPARK_DAEMON_JAVA_OPTS"] = "-Djava.net.preferIPv6Addresses=true"
        command = [*self.hosts.inside(name), str(home / "bin" / "spark-class"), main]
        with self._log(name).open("wb") as output:
            self._processes.append(
                subprocess.Popen(  # noqa: S603 - Spark's own launcher
                    [*command, "--host", address, "--webui-port", "0", *arguments],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                )
            )

    def _log(self, name: str) -> Path:
        return Path(self._folder.name) / f"{name}.log"

    def _wait_for(self, name: str, sign: str) -> None:
        end = time.monotonic() + _START_S
        while sign not in self._log(name).read_text(errors="replace"):
            if time.monotonic() > end:
                raise RuntimeError(f"{name} did not start: {self._log(name).read_text()[-2_000:]}")
            time.sleep(0.1)

"""Environments of other systems: each has one of its own, outside of the repository.

They are made once, and kept in a cache folder. A job of a peer is a script in `peer_jobs` that
imports nothing of Penstock: it reads costs, sleeps for them, and writes the times of all calls.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

JOBS = Path(__file__).parent / "peer_jobs"
INSTALL_S, RUN_S = 900, 900
READY = "ready"


class PeerError(Exception):
    """A peer cannot be installed, or its job has failed; one line with the reason."""


@dataclass(frozen=True)
class Peer:
    """Another system, in one setting.

    Attributes:
        package: requirement that pip installs.
        job: file in `peer_jobs`.
        arguments: further arguments of the job.
    """

    package: str
    job: str
    arguments: tuple[str, ...] = ()


PEERS = {
    "flink, rebalance": Peer("apache-flink", "flink_job.py"),
    "flink, adaptive": Peer("apache-flink", "flink_job.py", ("adaptive",)),
    "bytewax": Peer("bytewax", "bytewax_job.py"),
    "ray data": Peer("ray[data]", "ray_job.py"),
}


def cache() -> Path:
    """Return the default folder of environments."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-peers"


def installed(peer: Peer, folder: Path) -> Path:
    """Return the Python of a peer's environment, which is made if it is missing.

    Raises:
        PeerError: if it cannot be made.
    """
    home = folder / peer.package.replace("[", "-").rstrip("]")
    python = home / "bin" / "python"
    if not (home / READY).exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "venv", "--clear", home], INSTALL_S)
        run([python, "-m", "pip", "install", "--quiet", peer.package], INSTALL_S)
        (home / READY).touch()
    return python


def wall_s(peer: Peer, folder: Path, costs_ms: np.ndarray, *, workers: int, warm_up: int) -> float:
    """Return the time from the first to the last call of a stream.

    Args:
        peer: system that runs the stream.
        folder: folder of environments.
        costs_ms: cost of each record.
        workers: number of calls at a time.
        warm_up: number of first records that do not count.
    """
    python = installed(peer, folder)
    with tempfile.TemporaryDirectory(prefix="penstock-peer-") as name:
        given, target = Path(name, "given.json"), Path(name, "calls.json")
        given.write_text(json.dumps({"costs_ms": costs_ms.tolist()}))
        run([python, JOBS / peer.job, given, target, workers, *peer.arguments], RUN_S)
        calls = json.loads(target.read_text())["calls"]
    if sorted(number for number, _, _ in calls) != list(range(costs_ms.size)):
        raise PeerError(f"{peer.job} has made {len(calls)} calls for {costs_ms.size} records")
    counted = [call for call in calls if call[0] >= warm_up]
    return float(max(call[2] for call in counted) - min(call[1] for call in counted))


def run(command: list[object], limit_s: float) -> None:
    """Run a command to its end, with all processes that it starts.

    Raises:
        PeerError: if it fails or takes too long; with its last line of output.
    """
    # Nothing of ours may reach the peer's environment.
    own = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON"}
    environment = {key: value for key, value in os.environ.items() if key not in own}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(  # noqa: S603 - our own jobs, and pip
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise PeerError(f"took longer than {limit_s:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code:
            output.seek(0)
            told = [line.strip() for line in output if line.strip()]
            raise PeerError(told[-1] if told else f"ended with exit code {code}")

"""Jobs in processes of their own, which tests start, watch and kill."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from flows import WAIT_S

from penstock.spark.lab.clusters import executors_under

JOBS = Path(__file__).parent / "jobs"


@contextlib.contextmanager
def started(job, *arguments):
    """A job in processes of its own, all of them gone at the end."""
    place = Path(arguments[0])
    with (place / f"{job}.log").open("ab") as log:
        command = [sys.executable, str(JOBS / f"{job}.py"), *map(str, arguments)]
        process = subprocess.Popen(  # noqa: S603 - this test's own job
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield process
        finally:
            kill(process)


def kill(process):
    """Kill a job's Python and its JVM."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(WAIT_S)


def finished(job, *arguments, wait_s=WAIT_S):
    """Run a job to its end."""
    with started(job, *arguments) as process:
        assert process.wait(wait_s) == 0, log_of(job, arguments[0])


def log_of(job, place):
    """What a job has printed last."""
    return (Path(place) / f"{job}.log").read_text()[-5_000:]


def until(condition, process, job, place):
    """Wait for a condition while a job runs."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert process.poll() is None, log_of(job, place)
        assert time.monotonic() < end, log_of(job, place)
        time.sleep(0.02)


def executors_of(process):
    """Executor processes among the descendants of a process."""
    return executors_under(process.pid)

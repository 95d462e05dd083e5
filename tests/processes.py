"""Commands that tests run to their end, with all processes that these start."""

import contextlib
import os
import signal
import subprocess
import tempfile


def ran(command, *, timeout_s=600, **options):
    """Run a command, and return its exit code and what it has printed.

    A JVM or a Python worker that outlives the command would hold a pipe open, so that a test waits
    for ever. Output goes to files, and the whole session of the command ends with it.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(  # noqa: S603 - commands of our own tests
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            **options,
        )
        try:
            process.wait(timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            command, process.returncode, stdout=out.read(), stderr=err.read()
        )

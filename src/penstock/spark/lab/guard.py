"""Runs a command for as long as its parent lives: even a killed parent leaves nothing behind.

Started as a script of its own: `guard.py FOLDER COMMAND...`. The parent holds the other end of the
standard input open. When that ends, whatever the reason, the command is ended and the folder is
removed. If the command ends first, so does the guard, with the same exit code.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress

_PATIENCE_S = 10.0


def main(folder: str, command: list[str]) -> int:
    """Run a command until it ends, or until standard input ends; then remove a folder."""
    # The parent decides about the end, not a signal to the whole group of processes. The command
    # would inherit an ignored signal, but not a handler.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda *_: None)
    try:
        process = subprocess.Popen(  # noqa: S603 - the parent's own command
            command, stdin=subprocess.DEVNULL
        )
        threading.Thread(target=_end_with_parent, args=(process,), daemon=True).start()
        return process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_with_parent(process: subprocess.Popen[bytes]) -> None:
    # Not by `sys.stdin`: its lock would be in use when the guard ends.
    with suppress(OSError):
        while os.read(0, 1):
            pass
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

"""What a process and a folder use, from /proc and the file system; Linux only."""

import contextlib
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Used:
    """What a process uses.

    Attributes:
        mb: memory of its own that is resident. Pages of files, such as libraries, are left out: the
            system drops them and reads them again as it likes.
        threads: number of threads.
        files: number of open files.
    """

    mb: float
    threads: int
    files: int


def used(pid: int) -> Used | None:
    """Return what a process uses; None if it has ended."""
    entry = Path("/proc", str(pid))
    with contextlib.suppress(OSError):
        fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        resident, shared = map(int, (entry / "statm").read_text().split()[1:3])
        return Used(
            mb=(resident - shared) * _PAGE / 2**20,
            threads=int(fields[17]),
            files=len(list((entry / "fd").iterdir())),
        )
    return None


def why_not() -> str:
    """The reason why nothing can be measured here; empty if it can."""
    if sys.platform != "linux":
        return "processes are measured on Linux only"
    return "" if shutil.which("jcmd") else "the heap of a JVM needs the command jcmd of a JDK"


def heap_mb(pid: int) -> float:
    """Return what is reachable on the heap of a JVM, which collects its garbage first.

    It is NaN for a JVM that has ended or uses another collector.
    """
    text = ""
    for command in ("GC.run", "GC.heap_info"):
        asked = ["jcmd", str(pid), command]
        text = subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603
    # "def new generation   total 157248K, used 0K [...", "tenured generation   total ..., used ..."
    found = re.findall(r"generation.*used (\d+)K", text)
    return sum(map(int, found)) / 1024 if found else math.nan


def size_mb(folder: Path, pattern: str = "*") -> tuple[float, int]:
    """Return the size of the files below a folder, and their number."""
    total = number = 0
    for file in folder.rglob(pattern):
        # A file may be removed while the folder is read.
        with contextlib.suppress(OSError):
            if file.is_file():
                total += file.stat().st_size
                number += 1
    return total / 2**20, number

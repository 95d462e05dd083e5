"""What a process and a folder use, from /proc and the file system; Linux only."""

import contextlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Used:
    """What a process uses.

    Attributes:
        mb: memory that is resident.
        threads: number of threads.
        files: number of open files.
        cpu_s: computing time so far.
    """

    mb: float
    threads: int
    files: int
    cpu_s: float


def used(pid: int) -> Used | None:
    """Return what a process uses; None if it has ended."""
    entry = Path("/proc", str(pid))
    with contextlib.suppress(OSError):
        fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        pages = int((entry / "statm").read_text().split()[1])
        return Used(
            mb=pages * _PAGE / 2**20,
            threads=int(fields[17]),
            files=len(list((entry / "fd").iterdir())),
            cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
        )
    return None


def heap_mb(pid: int) -> float:
    """Return what is reachable on the heap of a JVM: it collects its garbage first."""
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        raise SystemExit("the heap of a JVM needs the command jcmd of a JDK")
    text = ""
    for command in ("GC.run", "GC.heap_info"):
        asked = [jcmd, str(pid), command]
        text = subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603
    # "def new generation   total 157248K, used 0K [...", "tenured generation   total ..., used ..."
    return sum(int(kb) for kb in re.findall(r"generation.*used (\d+)K", text)) / 1024


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

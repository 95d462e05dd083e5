"""Files of event logs: a single file, or a folder with the parts of a rolling log."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.diagnosis.codecs import CountedFile, TruncatedError, parts_of
from penstock.errors import PenstockError

# A longer line is skipped: an event that matters here is smaller by far.
LONGEST_LINE = 1 << 26
_ROLLED = re.compile(r"events_(\d+)_.+")
_ROLLED_FOLDER = "eventlog_v2_"
_COMPACT = ".compact"


@dataclass(frozen=True)
class LogFiles:
    """The files of the event log of one application, in the order of their events.

    Attributes:
        name: name of the log, for people.
        paths: paths of the files.
        in_progress: whether Spark had not closed the log.
    """

    name: str
    paths: tuple[Path, ...]
    in_progress: bool = False

    @property
    def size(self) -> int:
        """Number of bytes of all files, as they are stored."""
        return sum(path.stat().st_size for path in self.paths)


@dataclass
class Trouble:
    """Parts of a log that could not be read.

    Attributes:
        truncated: whether a file ends within a compressed block.
        too_long: number of lines that were skipped because of their length.
        broken: reason why the rest of a file could not be read.
    """

    truncated: bool = False
    too_long: int = 0
    broken: list[str] = field(default_factory=list)


def find_logs(path: Path) -> list[LogFiles]:
    """Return the event logs at a path.

    Args:
        path: event log, folder of a rolling log, or folder with several logs.

    Raises:
        PenstockError: if there is nothing to read.
    """
    if not path.exists():
        raise PenstockError(f"PATH must be an event log or a folder of logs; {path} does not exist")
    if path.is_file():
        return [_single(path)]
    rolling = _rolling(path)
    if rolling is not None:
        return [rolling]
    found = []
    for one in sorted(path.iterdir()):
        if one.is_dir() and one.name.startswith(_ROLLED_FOLDER):
            log = _rolling(one)
            found += [log] if log is not None else []
        elif one.is_file() and not one.name.startswith("."):
            found.append(_single(one))
    if not found:
        raise PenstockError(f"PATH must be an event log or a folder of logs; {path} has no files")
    return found


def _single(path: Path) -> LogFiles:
    return LogFiles(path.name, (path,), in_progress=path.name.endswith(".inprogress"))


def _rolling(folder: Path) -> LogFiles | None:
    """Return the parts of a rolling log from its newest compaction on; None if there are none."""
    parts = [
        (int(match[1]), one)
        for one in folder.iterdir()
        if (match := _ROLLED.fullmatch(one.name)) and one.is_file()
    ]
    if not parts:
        return None
    # A compacted part stands for itself and for all parts before it.
    parts.sort(key=lambda part: (part[0], part[1].name.endswith(_COMPACT)))
    compact = [i for i, (_, one) in enumerate(parts) if one.name.endswith(_COMPACT)]
    paths = tuple(one for _, one in parts[compact[-1] if compact else 0 :])
    open_still = any(
        one.name.endswith(".inprogress") for one in folder.glob("appstatus_*") if one.is_file()
    )
    return LogFiles(folder.name, paths, in_progress=open_still)


def lines_of(log: LogFiles, trouble: Trouble, count: Callable[[int], None]) -> Iterator[bytes]:
    """Return the lines of a log; its files are read in parts, so memory is bounded.

    Args:
        log: files of the log.
        trouble: record of parts that could not be read, filled in.
        count: function that receives the number of bytes of each read.
    """
    for path in log.paths:
        try:
            with CountedFile(path, count) as file:
                yield from _split(parts_of(file, path.name), trouble)  # type: ignore[arg-type]
        except TruncatedError:
            trouble.truncated = True
        except OSError as error:
            raise PenstockError(f"{path} cannot be read: {error.strerror or error}") from None
        except PenstockError as error:
            trouble.broken.append(f"{path.name}: {error}")


def _split(parts: Iterator[bytes], trouble: Trouble) -> Iterator[bytes]:
    r"""Cut parts into lines; the last line may lack its end.

    Example:
        >>> list(_split(iter([b"on", b"e\ntw", b"o"]), Trouble()))
        [b'one', b'two']
    """
    rest: list[bytes] = []
    held, skipping = 0, False
    try:
        for part in parts:
            first, *others = part.split(b"\n")
            if not others:
                held += len(first)
                skipping = skipping or held > LONGEST_LINE
                rest = [] if skipping else [*rest, first]
                continue
            if skipping:
                trouble.too_long += 1
            else:
                yield b"".join([*rest, first])
            yield from others[:-1]
            rest, held, skipping = [others[-1]], len(others[-1]), False
    finally:
        if skipping:
            trouble.too_long += 1
    if rest and not skipping:
        yield b"".join(rest)

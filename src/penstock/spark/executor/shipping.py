"""Functions on their way from the driver to executors."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from pyspark import cloudpickle

from penstock import __version__

T = TypeVar("T")


def shipped(function: Callable[[Iterator[T]], Iterator[T]]) -> Callable[[Iterator[T]], Iterator[T]]:
    """Return a function that runs on executors, or fails there with a clear message.

    The returned function is self-contained: an executor without Penstock can unpickle it. A task
    without records ends before anything is imported or unpickled: an operator has more tasks than
    some batches need.
    """
    payload = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    expected = __version__
    acknowledge = acknowledging()

    def run(batches: Iterator[T]) -> Iterator[T]:
        import gc  # noqa: PLC0415
        import itertools  # noqa: PLC0415
        import pickle  # noqa: PLC0415 - Spark itself unpickles tasks with it
        import sys  # noqa: PLC0415

        acknowledge()
        first = next(batches, None)
        if first is None:
            # Spark collects garbage after each task, which takes long with its modules loaded.
            # The mark is an attribute of a module: asking for the number of frozen objects counts
            # them one by one.
            if not hasattr(gc, "penstock_froze"):
                gc.collect()
                gc.freeze()
                gc.penstock_froze = True  # type: ignore[attr-defined]
            return
        here = f"the Python of this executor ({sys.executable})"
        try:
            import penstock  # noqa: PLC0415
        except ImportError:
            raise RuntimeError(
                f"penstock is not installed in {here}; see docs/guide/deploy.md of Penstock"
            ) from None
        if penstock.__version__ != expected:
            raise RuntimeError(
                f"penstock {penstock.__version__} is installed in {here}, the driver has "
                f"{expected}; install the same version on both"
            )
        function = pickle.loads(payload)  # noqa: S301 - part of the task itself
        yield from function(itertools.chain([first], batches))

    # Annotations would name this module, which would then be needed to unpickle the function.
    run.__annotations__ = {}
    return run


def acknowledging() -> Callable[[], None]:
    """Return a self-contained function that acknowledges the bytes this Python worker received.

    Spark sends the start of a task in two small writes without TCP_NODELAY. The second waits for
    the acknowledgement of the first, which Linux delays by 40 ms, so that it can travel with an
    answer. TCP_QUICKACK sends it now. It does not last, so every task asks for it.
    """

    def acknowledge() -> None:
        import os  # noqa: PLC0415
        import socket  # noqa: PLC0415
        import stat  # noqa: PLC0415
        from contextlib import suppress  # noqa: PLC0415

        # Only Linux has this option and this folder.
        if not hasattr(socket, "TCP_QUICKACK"):
            return
        numbers: list[str] = []
        with suppress(OSError):
            numbers = os.listdir("/proc/self/fd")  # noqa: PTH208 - every task lists it
        for number in numbers:
            # A file may have been closed since it was listed.
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(number)).st_mode):
                    connection = socket.socket(fileno=int(number))
                    try:
                        if connection.family != socket.AF_UNIX:
                            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    finally:
                        connection.detach()  # it stays open: this worker reads from it

    acknowledge.__annotations__ = {}
    return acknowledge

"""Functions on their way from the driver to executors."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from pyspark import cloudpickle

from penstock import __version__

T = TypeVar("T")


def shipped(function: Callable[[Iterator[T]], Iterator[T]]) -> Callable[[Iterator[T]], Iterator[T]]:
    """Return a function that runs on executors, or fails there with a clear message.

    The returned function is self-contained: an executor without Penstock can unpickle it.
    """
    payload = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    expected = __version__

    def run(batches: Iterator[T]) -> Iterator[T]:
        import pickle  # noqa: PLC0415 - Spark itself unpickles tasks with it
        import sys  # noqa: PLC0415

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
        yield from pickle.loads(payload)(batches)  # noqa: S301 - part of the task itself

    # Annotations would name this module, which would then be needed to unpickle the function.
    run.__annotations__ = {}
    return run

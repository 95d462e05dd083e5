"""A service of the lab: processes on this machine that a `with` statement starts and stops."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Service(ABC):
    """Processes that start and stop together; a `with` statement does both."""

    @abstractmethod
    def start(self) -> Self:
        """Start the processes, and wait until they answer."""

    @abstractmethod
    def stop(self) -> None:
        """End the processes, and remove their files; a second call does nothing."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

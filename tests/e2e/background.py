"""Something that runs beside a test, in a thread, from the entry of its context to the exit."""

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

JOIN_S = 120.0


class Background(ABC):
    """Use as a context manager: `run` goes on until `ended` is set."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.ended.set()
        self._thread.join(JOIN_S)

    @abstractmethod
    def run(self) -> None: ...

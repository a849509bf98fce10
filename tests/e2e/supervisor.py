"""Does what systemd does for the daemon in production: starts it again whenever it exits. Exit codes are kept for the
test.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.e2e.daemon_process import DaemonProcess

_PAUSE_S = 0.2
_STOP_DEADLINE_S = 120.0


class Supervisor:
    """Keeps one daemon running while the context lasts. `start` makes and starts the next one, without waiting for it
    to lead.
    """

    def __init__(self, start: Callable[[], DaemonProcess]) -> None:
        self._start = start
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._failure: BaseException | None = None
        self.exit_codes: list[int] = []
        self.daemon = start()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(_STOP_DEADLINE_S)
        if self.daemon.is_running():
            self.daemon.terminate()
        assert self._failure is None, self._failure

    def _run(self) -> None:
        try:
            while not self._ended.wait(_PAUSE_S):
                code = self.daemon.exit_code()
                if code is not None:
                    self.exit_codes.append(code)
                    self.daemon = self._start()
        except BaseException as error:  # noqa: BLE001  (told when the context ends)
            self._failure = error

"""An advisory lock between processes that the kernel frees when its holder dies, so it never goes stale."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recoveryd_sandbox.errors import LockTimeout

_POLL_S = 0.1


@contextmanager
def locked(path: Path, deadline_s: float) -> Iterator[None]:
    """Holds the lock `path` (created with its folder) during the block. Raises `LockTimeout` when it is not free within
    `deadline_s`.
    """
    give_up_at_s = time.monotonic() + deadline_s
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up_at_s:
                    raise LockTimeout(f"Another process has held {path} for {deadline_s:.0f} s.", "End it.") from None
                time.sleep(_POLL_S)
        yield

"""Collects garbage in a thread of our own, and in no other.

Python collects garbage in whichever thread happens to make objects. librdkafka answers the questions of an admin client
in a thread of its own, and ends the whole process if that thread gives the client up. That is what happens when the
answer comes to a client that only garbage still holds, as the traceback of a question that took too long does: the
objects of the answer start the collector, which gives up the client right there. So `collect_in_own_thread` is called
before the first admin client is made.

It stands here because the daemon and its jobs both need it.
"""

import contextlib
import gc
import threading
import time
from collections.abc import Iterator

_LOOK_S = 0.1
_FULL_SHARE = 0.001  # the interpreter's own rule against walking old objects too often cannot be asked for
_STUCK_S = 5.0

_started = threading.Event()
_collecting = threading.Lock()


def collect_in_own_thread() -> None:
    """From now on and for as long as the process lives. A second call does nothing."""
    gc.disable()
    if not _started.is_set():
        _started.set()
        threading.Thread(target=_collect, name="garbage", daemon=True).start()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Nobody collects inside, in this way or Python's."""
    was_on = gc.isenabled()
    gc.disable()
    # A collection that gives up a client may wait for it, and whoever reads the journal must not wait as long.
    held = _collecting.acquire(timeout=_STUCK_S)
    try:
        yield
    finally:
        if held:
            _collecting.release()
        if was_on:
            gc.enable()


def _collect() -> None:
    next_full_s = 0.0
    while True:
        time.sleep(_LOOK_S)
        generation = _due(next_full_s)
        if generation is None:
            continue
        began_s = time.monotonic()
        with _collecting:
            gc.collect(generation)
        if generation == 2:
            now_s = time.monotonic()
            next_full_s = now_s + (now_s - began_s) / _FULL_SHARE


def _due(next_full_s: float) -> int | None:
    """The oldest generation that has reached its threshold, as Python itself chooses."""
    counts, thresholds = gc.get_count(), gc.get_threshold()
    due = [number for number in range(3) if counts[number] > thresholds[number]]
    if due and due[-1] == 2 and time.monotonic() < next_full_s:
        return 1
    return due[-1] if due else None

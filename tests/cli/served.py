"""The real HTTP server of a daemon in a thread of the test."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from recoveryd.runtime.health import Health, HealthServer, Sources

LEADER: Final = Health("leader", is_loaded=True, loop_age_s=0.0, round_age_s=None, journal_failing_for_s=None)


@contextlib.contextmanager
def served(sources: Sources) -> Iterator[str]:
    """Gives the address of a server that answers from `sources`."""
    loop, server = asyncio.new_event_loop(), HealthServer(sources, "127.0.0.1", 0)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    yield f"http://127.0.0.1:{server.port}"
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()

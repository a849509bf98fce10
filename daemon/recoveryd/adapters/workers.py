"""Threads for blocking client calls, a few of one's own per adapter, and for each cluster where an adapter asks
several.

Not the event loop's shared pool, and none for several clusters: one that does not answer would take all threads from
those that do.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """`threads` calls run at once, further ones wait for their turn."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(*args, **kwargs))

    def close(self) -> None:
        """Calls under way end at their own deadlines; waiting ones are dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class ClusterWorkers:
    """`threads` for each cluster."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = threads
        self._made: dict[str, Workers] = {}

    def of(self, cluster: str) -> Workers:
        """Those of one cluster of the config."""
        if cluster not in self._made:
            self._made[cluster] = Workers(f"{self._name}-{cluster}", self._threads)
        return self._made[cluster]

    def close(self) -> None:
        """As `Workers.close`."""
        for workers in self._made.values():
            workers.close()

"""What `recoveryctl sandbox up|down|seed|live` does, as plain functions that return what to show.

They print nothing and raise `recoveryd_sandbox.errors.SandboxError` (a sentence and a next step) on any failure.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from recoveryd_sandbox import handle
from recoveryd_sandbox.cluster_nodes import Shape
from recoveryd_sandbox.live import LiveProducer, LiveStats
from recoveryd_sandbox.probe import PLAIN
from recoveryd_sandbox.seed import SeedReport, seed

_TICK_S = 1.0


def sandbox_up(port: int | None = None, folder: Path | None = None) -> str:
    """Leave a broker running and return its `127.0.0.1:PORT`; a running one is kept."""
    return handle.up(folder, port)


def sandbox_cluster_up(
    brokers: int, *, secure: bool, port: int | None = None, folder: Path | None = None
) -> handle.ClusterAddress:
    """Leave a cluster running; a running one is kept. `port` is the first broker's."""
    return handle.up_cluster(Shape(brokers, secure), folder, port)


def sandbox_down(folder: Path | None = None) -> bool:
    """End all brokers of the folder and keep their data. False when none ran."""
    return handle.down(folder)


def sandbox_seed(
    bootstrap: str,
    topic: str = "flights",
    partitions: int = 4,
    limit: int | None = None,
    repeat: int = 1,
    append: bool = False,
    client: Mapping[str, str] = PLAIN,
) -> SeedReport:
    """Fill `topic` with the flights; leave it alone when they are there already (`written` is False then)."""
    return seed(bootstrap, topic, partitions, limit, repeat, append, client)


def sandbox_live(
    bootstrap: str,
    records_per_s: float = 200.0,
    seconds: float | None = None,
    topic: str = "flights.live",
    on_tick: Callable[[LiveStats], None] | None = None,
    client: Mapping[str, str] = PLAIN,
) -> LiveStats:
    """Produce live traffic for `seconds`, or without it until Ctrl-C, and return the final counts.

    `on_tick` is called with the present counts about once a second.
    """
    with LiveProducer(bootstrap, topic, records_per_s, client=client) as live:
        ends_at_s = None if seconds is None else time.monotonic() + seconds
        try:
            while ends_at_s is None or time.monotonic() < ends_at_s:
                time.sleep(_TICK_S if ends_at_s is None else max(0.0, min(_TICK_S, ends_at_s - time.monotonic())))
                if on_tick is not None:
                    on_tick(live.stats())
        except KeyboardInterrupt:
            pass  # the intended end of traffic without a set time
        return live.stop()

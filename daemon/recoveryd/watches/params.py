"""Numbers and names that watches use. Frozen for the life of a daemon, made from the config; every default is the
documented one.
"""

from dataclasses import dataclass

from recoveryd.live.params import LiveParams
from recoveryd.units.params import UnitParams


@dataclass(frozen=True, slots=True)
class WatchParams(UnitParams):
    """`clusters` and `webhooks`: the names in the config; `own_topics`: the names of recoveryd's own topics. `live`:
    how the lag of each group is told, so that a watch finds no other one than who looks at it. Times in ms.
    """

    clusters: frozenset[str] = frozenset({"main"})
    webhooks: frozenset[str] = frozenset()
    own_topics: frozenset[str] = frozenset()
    live: LiveParams = LiveParams()
    caught_up_evaluations: int = 3
    caught_up_span_ms: int = 30_000
    stop_wait_ms: int = 600_000
    keep_terminal_ms: int = 90 * 86_400_000
    keep_terminal_most: int = 1_000

"""Numbers and names that holds use. Frozen for the life of a daemon, made from the config."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HoldParams:
    """`clusters`: the names in the config; `own_topics`: the names of recoveryd's own topics. Times in ms."""

    clusters: frozenset[str] = frozenset({"main"})
    own_topics: frozenset[str] = frozenset()
    keep_terminal_ms: int = 90 * 86_400_000
    keep_terminal_most: int = 1_000

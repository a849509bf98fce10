"""Whether an application is exactly once: told by who wrote its internal topics.

Kafka Streams gives each thread of an exactly-once application a transactional id that begins with its application id.
Brokers remember such ids for a week, so that the id alone does not show that the application still works in this way.
But they also remember who wrote to a partition last: by that the question is decided, where anybody remembers it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from recoveryd.units.model import Unit, UnitKind

# A process' id and the number of a thread; older ones the id of a task.
_THREAD: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+|\d+_\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """A producer that wrote to a partition, when it did last, and whether it did in transactions."""

    topic: str
    partition: int
    producer_id: int
    at_ms: int
    is_transactional: bool = False


@dataclass(frozen=True, slots=True)
class Guarantee:
    """`is_exactly_once` None = nobody can tell."""

    is_exactly_once: bool | None
    why: str


def own_ids(unit: Unit, ids: Collection[str]) -> frozenset[str]:
    """Of all transactional ids those that Streams makes for exactly this application."""
    start = f"{unit.group}-"
    return frozenset(each for each in ids if each.startswith(start) and _THREAD.fullmatch(each[len(start) :]))


def tell_guarantee(unit: Unit, ids: Mapping[str, int], written: Iterable[WrittenBy]) -> Guarantee:
    """`ids`: transactional ids with their producers, those that may be seen; `written`: to topics that only this unit
    writes.
    """
    if unit.kind is not UnitKind.STREAMS:
        return _as_declared(unit, "only of Kafka Streams brokers can tell whether it is exactly once")
    own = own_ids(unit, ids)
    producers = {ids[each] for each in own}
    last: dict[tuple[str, int], WrittenBy] = {}
    for each in sorted(written, key=lambda w: w.at_ms):
        last[each.topic, each.partition] = each
    unseen = [each for each in last.values() if each.producer_id not in ids.values()]
    plain = [each for each in unseen if not each.is_transactional]
    if plain:
        why = f"who wrote {plain[0].topic} {plain[0].partition} last did it without a transactional id"
        return Guarantee(False, why)
    under = sum(each.producer_id in producers for each in last.values())  # others, such as a restore, say nothing of it
    if under:
        why = f"{under} internal partitions were written last under transactional ids of {unit.group}"
        return Guarantee(True, why)
    if unseen:
        why = (
            f"who wrote {unseen[0].topic} {unseen[0].partition} last did it in a transaction whose id the daemon may not "
            f"see: it lacks Describe on TransactionalId {unit.group}"
        )
        return _as_declared(unit, why)
    if own:
        return _as_declared(
            unit, f"it has {len(own)} transactional ids, but nobody remembers who wrote its topics last"
        )
    return _as_declared(unit, "it has no transactional ids, and nobody remembers who wrote its topics last")


def _as_declared(unit: Unit, why: str) -> Guarantee:
    if unit.is_exactly_once is None:
        return Guarantee(None, why)
    return Guarantee(unit.is_exactly_once, f"the config says so; {why}")

"""What brokers remember of transactional ids and of who wrote a unit's internal topics, for `units.guarantee`."""

import asyncio
from collections.abc import Mapping
from typing import Final

from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.guarantee import Guarantee, WrittenBy, tell_guarantee
from recoveryd.units.model import Unit, UnitKind

_TIMEOUT_S: Final = 15.0


def read_guarantee(
    access: ClientAccess | None, unit: Unit, internal: Mapping[str, TopicShape], *, for_plan: bool = False
) -> Guarantee:
    """Whether the unit is exactly once, and why. What cannot be asked is not known, and says so; `for_plan`: what
    another try may tell is a `ClusterProblem`, for a plan keeps what it was told.
    """
    if access is None or unit.kind is not UnitKind.STREAMS:
        return tell_guarantee(unit, {}, ())
    try:
        ids, written = asyncio.run(_ask(access, internal))
    except ClusterProblem as reason:
        if for_plan and reason.retriable:
            raise
        told = tell_guarantee(unit, {}, ())
        return Guarantee(told.is_exactly_once, f"it could not be asked: {reason.message}")
    return tell_guarantee(unit, ids, written)


async def _ask(access: ClientAccess, internal: Mapping[str, TopicShape]) -> tuple[dict[str, int], list[WrittenBy]]:
    led: dict[int, dict[str, list[int]]] = {}
    for topic, shape in internal.items():
        for partition, leader in shape.leaders.items():
            if leader >= 0:
                led.setdefault(leader, {}).setdefault(topic, []).append(partition)
    async with connected(access, "recoveryd-writers", "ask who wrote the internal topics", _TIMEOUT_S) as client:
        ids = await client.transactional_ids()
        written = [
            WrittenBy(each.topic, each.partition, each.producer_id, each.at_ms, each.is_transactional)
            for broker, partitions in led.items()
            for each in await client.producers(broker, partitions)
        ]
    return ids, written

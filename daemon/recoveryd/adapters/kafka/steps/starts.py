"""A closer look at where a group is about to begin: does the position lie inside a transaction, and how old is the
first record there. It only makes a plan wiser: what cannot be learnt in its time is left out.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.record_samples import SAMPLE_S, sample_records
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.errors import ClusterProblem
from recoveryd.recovery.spec import AtOffset
from recoveryd.workflows.model.facts import GroupWanted
from recoveryd.workflows.model.positions import (
    AtTopicOffsets,
    OnNoRecord,
    OnOutOfRange,
    PartitionLook,
    PositionRefused,
    Shift,
    resolve,
)

_log = logging.getLogger("recoveryd.kafka")

_DEADLINE_S: Final = 5.0
_SAMPLES_S: Final = 10.0  # of all topics together; of those after it no time is known
_PARTITIONS_MOST: Final = 500
_BY_NUMBER: Final = AtOffset | AtTopicOffsets | Shift  # nobody knows of what times such positions are

Places = Mapping[str, Mapping[int, int]]


async def with_starts(
    reach: Reach, wanted: GroupWanted, looks: Sequence[PartitionLook], shapes: Mapping[str, TopicShape]
) -> list[PartitionLook]:
    """The looks with what is known of their positions. Of very many partitions nothing is asked."""
    places = _places(wanted, looks)
    if not 0 < sum(map(len, places.values())) <= _PARTITIONS_MOST:
        return list(looks)
    begun: dict[tuple[str, int], tuple[int, bool]] = {}
    times: dict[tuple[str, int], int] = {}
    try:
        async with connected(
            reach.accesses[wanted.cluster], "recoveryd-starts", "look at transactions", _DEADLINE_S
        ) as client:
            for topic, at in places.items():
                for broker in sorted({shapes[topic].leaders[p] for p in at}):
                    there = {p: offset for p, offset in at.items() if shapes[topic].leaders[p] == broker}
                    found = await client.transactions_at(broker, topic, there)
                    begun |= {(topic, p): told for p, told in found.items()}
        if isinstance(wanted.to, _BY_NUMBER):
            times = await _first_times(reach, wanted.cluster, places, looks)
    except ClusterProblem as problem:
        _log.info("Not known whether %s begins inside a transaction: %s", wanted.group, problem.message)
    return [
        replace(
            look,
            transaction_start=begun.get(look.key, (None, False))[0],
            is_transaction_open=begun.get(look.key, (None, False))[1],
            first_ms=times.get(look.key),
        )
        for look in looks
    ]


def _places(wanted: GroupWanted, looks: Sequence[PartitionLook]) -> dict[str, dict[int, int]]:
    """Where each partition would begin; those for which there is no such place are refused by the plan."""
    places: dict[str, dict[int, int]] = {}
    for look in looks:
        try:
            position = resolve(wanted.to, look, OnOutOfRange.CLAMP, OnNoRecord.AT_END)
        except PositionRefused:
            continue
        if position.offset is not None and position.offset > look.log_start:
            places.setdefault(look.topic, {})[look.partition] = position.offset
    return places


async def _first_times(
    reach: Reach, cluster: str, places: Places, looks: Sequence[PartitionLook]
) -> dict[tuple[str, int], int]:
    ends = {look.key: look.high_watermark for look in looks}
    found: dict[tuple[str, int], int] = {}
    give_up_s = time.monotonic() + _SAMPLES_S
    for topic, at in places.items():
        if time.monotonic() >= give_up_s:
            break
        ranges = {p: (offset, ends[topic, p]) for p, offset in at.items()}
        sample = await reach.run(cluster, sample_records, reach.clusters[cluster], topic, ranges, SAMPLE_S)
        found |= {(topic, p): time_ms for p, time_ms in sample.first_ms.items()}
    return found

"""The specification of a replay that a measurement runs without a daemon, as a daemon would write it, on existing
topics.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from bench.bed import Topics
from recoveryd.wire.topics import TopicNames, own_topics
from recoveryd_jobs.contract import ControlSpec, Directive, JobSpec, LaneSpec, PartitionRange, SourceSpec, TargetSpec

NAMES = TopicNames("bench.")
_LEASE_TTL_MS = 3_600_000


def create_own(topics: Topics, names: TopicNames = NAMES) -> None:
    """The topics that recoveryd keeps for itself."""
    for topic in own_topics(names):
        topics.create(topic.name, topic.partitions, topic.configs)


def replay_spec(
    topics: Topics,
    recovery: str,
    source: str,
    target: str,
    partitions: int,
    lanes: Iterable[Sequence[PartitionRange]],
    **more: Any,
) -> JobSpec:
    """An identity replay into `target`, which nobody else writes to. `more` are fields of the specification."""
    client = {"bootstrap.servers": topics.bootstrap}
    return JobSpec(
        kind="replay",
        scope="bench",
        recovery=recovery,
        attempt=1,
        lanes=tuple(LaneSpec(number, tuple(ranges)) for number, ranges in enumerate(lanes)),
        source=SourceSpec("main", source, topics.topic_id(source), client),
        target=TargetSpec("main", target, topics.topic_id(target), partitions, client),
        control=ControlSpec(client, NAMES.directives, NAMES.progress),
        receipts_topic=NAMES.receipts,
        directive=Directive(recovery, 1, 1, "run", _LEASE_TTL_MS),
        **more,
    )

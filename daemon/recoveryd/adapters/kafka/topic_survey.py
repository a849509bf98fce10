"""Topics as they are now, for people who compare them: partitions, replicas, configs that were set, log starts and
ends. Blocking, with deadlines; changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException

from recoveryd.adapters.kafka.client import Properties, make_admin, problem, shut_out
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.topic_admin import describe, read_own_configs
from recoveryd.errors import ClusterProblem

_TIMEOUT_S = 30.0
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class SurveyedTopic:
    """`ranges` by partition: log start and high watermark; a partition without a leader has none."""

    topic: str
    topic_id: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    ranges: Mapping[int, tuple[int, int]]

    @property
    def offsets(self) -> int:
        return sum(stop - start for start, stop in self.ranges.values())


def topic_names(cluster: str, properties: Properties) -> tuple[str, ...]:
    """All that the user may see, sorted. Raises `ClusterProblem`."""
    admin = make_admin(properties)
    try:
        found = admin.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as error:
        raise shut_out(properties, cluster) or problem(error, f"list the topics of {cluster}") from error
    return tuple(sorted(found))


def survey(cluster: str, properties: Properties, topics: Sequence[str]) -> dict[str, SurveyedTopic | None]:
    """By name; None = no such topic. Raises `ClusterProblem`."""
    admin = make_admin(properties)
    found: dict[str, SurveyedTopic | None] = {}
    try:
        for at in range(0, len(topics), _AT_ONCE):
            shapes = describe(admin, topics[at : at + _AT_ONCE], _TIMEOUT_S)
            there = {name: shape for name, shape in shapes.items() if shape is not None}
            configs = read_own_configs(admin, there, _TIMEOUT_S)
            found |= dict.fromkeys(shapes)
            for name, shape in there.items():
                led = [key for key in shape.keys if shape.leaders[key[1]] >= 0]
                starts = read_offsets(admin, led, EARLIEST, _TIMEOUT_S) if led else {}
                ends = read_offsets(admin, led, LATEST, _TIMEOUT_S) if led else {}
                found[name] = SurveyedTopic(
                    name,
                    shape.topic_id,
                    shape.partitions,
                    shape.replication_factor,
                    configs.get(name, {}),
                    {partition: (starts[partition], ends[partition]) for _topic, partition in led},
                )
    except ClusterProblem as silence:
        why = shut_out(properties, cluster) if silence.retriable else None
        raise why or silence from silence
    return found

"""Which brokers lead a partition of the canary's topic, and how one that leads none is given one.

A broker that leads none is not measured, as one that was added after the topic was made. The number of partitions does
not tell: Kafka lets anybody lead a partition that is added, so the commands here say who shall.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle, islice

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

_SURE_LOOKS = 2  # leaders move, and a broker may tell of before
_RETURN_LOOKS = 10  # brokers that were restarted are given their partitions back every five minutes


@dataclass(frozen=True, slots=True)
class CanaryLeaders:
    """`leaders` maps every partition to the id of the broker that leads it (-1 = none now), `replicas` to all that hold
    it, first the one that leads it by preference. `brokers` are all of the cluster.
    """

    topic: str
    brokers: frozenset[int]
    leaders: Mapping[int, int]
    replicas: Mapping[int, tuple[int, ...]]

    @property
    def partitions(self) -> int:
        return len(self.leaders)

    @property
    def is_led(self) -> bool:
        """Whether every partition has a leader."""
        return min(self.leaders.values(), default=-1) >= 0

    @property
    def silent(self) -> tuple[int, ...]:
        """The brokers that lead none. Nothing is known while a partition has no leader: one of them may be next."""
        return tuple(sorted(self.brokers - {*self.leaders.values()})) if self.is_led else ()

    @property
    def returning(self) -> Mapping[int, int]:
        """Of the silent ones, those that would lead a partition by preference, with the first such partition."""
        preferred = {held[0]: partition for partition, held in sorted(self.replicas.items(), reverse=True) if held}
        return {broker: preferred[broker] for broker in self.silent if broker in preferred}

    def mend(self, servers: str) -> str:
        """What to type so that each silent broker leads a partition; empty where none is silent."""
        new = [broker for broker in self.silent if broker not in self.returning]
        return " && ".join([
            *([self._adding(new, servers)] if new else []),
            *(
                f"kafka-leader-election.sh --bootstrap-server {servers} --election-type preferred"
                f" --topic {self.topic} --partition {partition}"
                for partition in self.returning.values()
            ),
        ])  # fmt: skip

    def _adding(self, new: list[int], servers: str) -> str:
        """Kafka's tool wants the partitions that there are in front of the new ones, and leaves them where they are."""
        width = max((len(held) for held in self.replicas.values()), default=1)
        ring = sorted(self.brokers)
        added = [islice(cycle(ring), ring.index(first), ring.index(first) + min(width, len(ring))) for first in new]
        held = [*(self.replicas[partition] for partition in sorted(self.replicas)), *added]
        assignment = ",".join(":".join(map(str, brokers)) for brokers in held)
        return (
            f"kafka-topics.sh --bootstrap-server {servers} --alter --topic {self.topic}"
            f" --partitions {self.partitions + len(new)} --replica-assignment {assignment}"
        )


class SilentBrokers:
    """What is to be said of those that lead none: once, again when they are others, and not while leaders just move."""

    def __init__(self) -> None:
        self._looks: dict[int, int] = {}  # in a row in which a broker was silent
        self._said: tuple[int, ...] = ()

    def told(self, seen: CanaryLeaders) -> tuple[int, ...] | None:
        """The brokers that are to be told of now, empty when all are well again; None = nothing new."""
        if not seen.is_led:
            return None
        self._looks = {broker: self._looks.get(broker, 0) + 1 for broker in seen.silent}
        sure = tuple(
            broker
            for broker, looks in self._looks.items()
            if looks >= (_RETURN_LOOKS if broker in seen.returning else _SURE_LOOKS)
        )
        if sure == self._said:
            return None
        self._said = sure
        return sure


def look(client: Producer | AdminClient, topic: str, timeout_s: float) -> CanaryLeaders | None:
    """One question; None where the answer tells nothing of the topic. The client knows of all its partitions then, also
    of those that were added, and it must have been made with MAKES_NO_TOPIC. Raises KafkaException.
    """
    answer = client.list_topics(topic, timeout=timeout_s)
    found = answer.topics.get(topic)
    if found is None or not found.partitions:
        return None
    if found.error is not None:
        raise KafkaException(found.error)
    return CanaryLeaders(
        topic,
        frozenset(answer.brokers),
        {number: partition.leader for number, partition in found.partitions.items()},
        {number: tuple(partition.replicas) for number, partition in found.partitions.items()},
    )

"""A Kafka client that has lost sight of its cluster, for good.

A broker that the controller takes for dead answers for a moment that there is no broker at all, as after a long pause
of the only one. The client then drops each broker it knows, says `_ALL_BROKERS_DOWN`, and begins anew at its bootstrap
servers; now and then it does not, and stays blind until it is closed (librdkafka 2.11 to 2.16,
confluentinc/librdkafka#5301). So whoever keeps a client that only listens makes another one when it has heard nothing
since it said so.
"""

from typing import Final

from confluent_kafka import KafkaError

SAYS_SO: Final[int] = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
# A client that does begin anew has heard of its partitions by then.
BLIND_AFTER_S: Final = 10.0


class ClusterSight:
    """Of one client. Times are of one steady clock, in seconds."""

    def __init__(self) -> None:
        self._lost_s: float | None = None

    def note(self, error: KafkaError | None, now_s: float) -> None:
        """It gave a message, with this error if it is no record. A record or the end of a partition is no proof that it
        has a broker again: what it fetched before waits in its queue.
        """
        is_heard = error is None or error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001
        if (is_heard and self._lost_s is not None) or (error is not None and error.code() == SAYS_SO):
            self._lost_s = now_s

    def is_lost(self, now_s: float) -> bool:
        """It reported that no broker is left, and for ten seconds now it gave nothing. A client that found its brokers
        again may be quiet as well; making another one costs little.
        """
        return self._lost_s is not None and now_s - self._lost_s >= BLIND_AFTER_S

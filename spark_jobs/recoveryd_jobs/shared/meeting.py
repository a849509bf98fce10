"""How a new Kafka client meets its cluster without waiting for timers of librdkafka (2.16).

A client asks a bootstrap server who the brokers are, drops that connection, and makes one to a broker. Between two
connections it lets half of `reconnect.backoff.ms` pass, so by default each new client takes 50 ms longer than it must.
And one that looks for the coordinator of its transactions in that moment finds nobody to ask, and tries again after
half a second.

It stands here because the daemon and its jobs make a client for many a question.
"""

import contextlib
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException, Producer

# Each further try waits twice as long, as by default.
MEETS_SOON: Final[Mapping[str, str]] = {"reconnect.backoff.ms": "20"}


def meet(producer: Producer, topic: str, timeout_s: float) -> None:
    """Return once the client is connected to a broker: the first answer may come from a bootstrap server, the second
    does not. No answer is no error here, since whatever follows waits for one too.
    """
    with contextlib.suppress(KafkaException):
        producer.list_topics(topic, timeout=timeout_s)
        producer.list_topics(topic, timeout=timeout_s)

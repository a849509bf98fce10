"""How the tests' own clients connect: by the cluster's address alone, or with the properties that were noted for a
secured cluster's address.
"""

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

_COMMIT_WITHIN_S = 120.0
_MEET_S = 60.0
# A new group has no coordinator at first, and a new topic is not known to it yet.
_NOT_YET = frozenset({
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.REQUEST_TIMED_OUT, KafkaError._WAIT_COORD, KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN,
})  # fmt: skip

_KNOWN: dict[str, Mapping[str, str]] = {}


def note_access(bootstrap: str, properties: Mapping[str, str]) -> None:
    """From now on clients for `bootstrap` use these librdkafka properties."""
    _KNOWN[bootstrap] = dict(properties)


def client(bootstrap: str) -> dict[str, Any]:
    """Librdkafka's properties of a client for `bootstrap`; plain text unless noted otherwise."""
    return {**_KNOWN.get(bootstrap, {}), "bootstrap.servers": bootstrap}


def writer(bootstrap: str, **settings: Any) -> Producer:
    """A producer that writes each record once and in order. One without idempotence would write a batch that was
    refused, for instance by a leader that is not ready yet, after later ones.
    """
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return met(Producer({**client(bootstrap), "log_level": 0, "enable.idempotence": True, **named}))


def met(producer: Producer) -> Producer:
    """The producer, connected: it asks for its id at once, and again only half a second later."""
    with contextlib.suppress(KafkaException):  # the broker may be away
        producer.list_topics(timeout=_MEET_S)  # of one topic it would go on to ask, ten times while a broker hangs
    return producer


def commit(consumer: Consumer, offsets: Iterable[TopicPartition]) -> None:
    """Commits these offsets, however long the group has no coordinator yet."""
    give_up_at_s, wanted = time.monotonic() + _COMMIT_WITHIN_S, list(offsets)
    while True:
        try:
            answered = consumer.commit(offsets=wanted, asynchronous=False) or []
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or time.monotonic() > give_up_at_s:
                raise
        else:
            if all(where.error is None for where in answered):
                return
            assert time.monotonic() < give_up_at_s, [where.error for where in answered]
        time.sleep(0.1)

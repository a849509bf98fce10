"""Makes an admin client know who leads a topic's partitions, which it must before it is asked for their offsets.

librdkafka (2.16) begins such a question in the thread of the caller and, where it does not know a leader, has it woken
by the next metadata that come. A new client gets them at that very moment: its own thread then goes on with the
question and frees it while the caller still uses it, and the process ends with a segmentation fault. Deleting records
begins in the same way. A question about leaders that are known waits for nothing.

It stands here because the daemon and its jobs both ask for offsets.
"""

import time
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from confluent_kafka.admin import AdminClient

# Without it, a producer, or an admin client that asks for a topic, makes anew what is gone, where brokers allow that.
MAKES_NO_TOPIC: Final[Mapping[str, str]] = {"allow.auto.create.topics": "false"}
_KNOWN_S = 60.0  # the library forgets after metadata.max.age.ms, 15 minutes unless somebody sets it
_TOPICS_MOST = 1000  # per client

_until_s: WeakKeyDictionary[AdminClient, dict[str, float]] = WeakKeyDictionary()


def knows_leaders(admin: AdminClient, topic: str) -> bool:
    return time.monotonic() < _until_s.get(admin, {}).get(topic, 0.0)


def learn_leaders(admin: AdminClient, topic: str, timeout_s: float) -> None:
    """Waits for an answer about the topic unless one came lately. Where it says that there is no such topic, or a
    partition has no leader, the next call asks again. Raises KafkaException. The client must have been made with
    MAKES_NO_TOPIC.
    """
    if knows_leaders(admin, topic):
        return
    until_s = time.monotonic() + _KNOWN_S
    partitions = admin.list_topics(topic, timeout=timeout_s).topics[topic].partitions
    if not partitions or any(partition.leader < 0 for partition in partitions.values()):
        return
    known = _until_s.setdefault(admin, {})
    if len(known) >= _TOPICS_MOST:
        known.clear()
    known[topic] = until_s

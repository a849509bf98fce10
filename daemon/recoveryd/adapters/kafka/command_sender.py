"""Writes commands of the daemon itself to the control topic.

Only what the daemon's own codec takes is sent: what would be refused by its form leaves no trace on the topic. The
record is not part of the journal's transactions: the journal holds the intent before, and a copy that is sent twice is
one command.
"""

import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from recoveryd.adapters.kafka.client import Properties, is_no_such_topic, make_producer, problem
from recoveryd.adapters.kafka.living_clients import version_of
from recoveryd.adapters.workers import Workers
from recoveryd.errors import ClusterProblem, FormProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.effects import SendCommand
from recoveryd.wire.codec import Codec, EncodedCommand
from recoveryd.wire.topics import ONLY_PARTITION

DEADLINE_S: Final = 20.0
_POLL_S: Final = 0.2
_SLACK_S: Final = 5.0  # the client says how a record ended a little after its own deadline


def encode(codec: Codec, effect: SendCommand) -> EncodedCommand:
    """Raises `FormProblem`."""
    made = codec.encode(
        effect.verb, effect.subject, effect.data, id=effect.id, source=effect.source, time_ms=effect.at_ms
    )
    if isinstance(made, RefusedCommand):
        raise FormProblem(Code(made.code), made.message, made.hint)
    return made


class KafkaCommandSender:
    """`properties` are librdkafka's of the cluster `main`. Connects when the first command is sent, and anew after a
    failure.
    """

    def __init__(self, properties: Properties, topic: str, codec: Codec) -> None:
        # A topic that is not there is told after this time, instead of as one more record that ran out of time.
        self._properties = properties
        self._topic = topic
        self._codec = codec
        self._workers = Workers("commands", 1)
        self._producer: Producer | None = None
        self._version = 0  # of the login that it was made with
        self._is_closed = False

    async def send(self, effect: SendCommand) -> None:
        """See the port."""
        await self._workers.run(self._send, encode(self._codec, effect))

    async def close(self) -> None:
        """See the port."""
        self._is_closed = True
        self._workers.close()
        self._producer = None

    def _send(self, record: EncodedCommand) -> None:
        outcome: list[KafkaError | None] = []

        def told(error: KafkaError | None, _message: Message) -> None:
            outcome.append(error)

        producer = self._living_producer()
        try:
            producer.produce(
                self._topic,
                value=record.value,
                key=record.key,
                partition=ONLY_PARTITION,
                headers=list(record.headers),
                on_delivery=told,
            )
            end_s = time.monotonic() + DEADLINE_S + _SLACK_S
            while not outcome and not self._is_closed and time.monotonic() < end_s:
                producer.poll(_POLL_S)
        except KafkaException as error:
            raise self._failed(error) from error
        if not outcome:
            raise self._failed(None)
        if outcome[0] is not None:
            raise self._failed(KafkaException(outcome[0]))

    def _living_producer(self) -> Producer:
        version = version_of(self._properties)
        if self._producer is None or self._version != version:
            properties = {**self._properties, "topic.metadata.propagation.max.ms": 5_000}
            self._producer, self._version = make_producer(properties, int(DEADLINE_S * 1_000)), version
        return self._producer

    def _failed(self, error: KafkaException | None) -> ClusterProblem:
        """The client is given up: an idempotent one may stay broken."""
        if self._producer is not None:
            self._producer.purge()
        self._producer = None
        if error is None:
            return ClusterProblem(f"{self._topic} gave no answer within {DEADLINE_S:.0f} s.")
        if is_no_such_topic(error):
            text = f"{self._topic} does not exist; `recoveryctl topics apply` creates it."
            return ClusterProblem(text, code=Code.OWN_TOPIC_MISSING)
        found = problem(error, f"write to {self._topic}", "Write", self._topic)
        # A right can be granted while the daemon runs, and the same command is sent again then.
        return ClusterProblem(found.message, found.hint, code=found.code)

"""confluent-kafka's consumer, made to obey holds."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from recoveryd.client.heeding import Heeding, Place
from recoveryd.client.status import HoldFollower
from recoveryd.client.telling import Teller

Drain = Callable[[list[TopicPartition]], bool | None]
_Told = Callable[[Consumer, list[TopicPartition]], object]

_LOOK_S: Final = 0.5  # a hold is noticed at least this often, however long a poll may wait
_TRY_AGAIN_S: Final = 0.5
_FOLLOW_S: Final = 0.05  # asking the status topic costs a millisecond, which is much for each record
_ASK_S: Final = 5.0
_LEAVE_S: Final = 5.0
_CONNECTING: Final = (
    "bootstrap.servers",
    "metadata.broker.list",
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "oauth_cb",
)


class HoldAwareConsumer(Consumer):
    """Obeys holds of the topics that it is subscribed to. As with any consumer, one thread uses it.

    `drain(partitions)` is called when their topics are held: it finishes what was taken from them and is still open. It
    returns soon; False = not finished yet, ask again. An application that has processed each record before it polls
    again needs none. Then positions are committed, unless `commits` is False because `drain` does it.

    `recoveryd`: the client properties of the cluster with recoveryd's own topics, if that is another one. `cluster`:
    the name under which the daemon's config has the cluster of this consumer. With `acknowledges` False it obeys
    without saying so, and needs no right to write to the control topic.

    Raises `HoldsUnknown` when the status topic cannot be read within `known_within_s`: who does not know what is held
    must not read.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        recoveryd: Mapping[str, Any] | None = None,
        prefix: str = "recovery.",
        cluster: str = "main",
        drain: Drain = lambda _partitions: True,
        commits: bool = True,
        acknowledges: bool = True,
        known_within_s: float = 30.0,
    ) -> None:
        super().__init__(dict(config))
        own = {k: v for k, v in config.items() if k.startswith(_CONNECTING)} if recoveryd is None else recoveryd
        self._drain, self._commits = drain, commits
        self._is_incremental = _is_incremental(config)
        self._heeding = Heeding()
        self._not_taken: dict[Place, int] = {}
        self._try_at_s = self._obey_at_s = 0.0
        group, client = str(config.get("group.id", "")), str(config.get("client.id", ""))
        self._teller = Teller(own, f"{prefix}control.v1", group, client) if acknowledges else None
        self._status = HoldFollower(own, f"{prefix}status.v1", cluster)
        try:
            self._status.read(known_within_s)
        except BaseException:
            self._status.close()
            super().close()
            raise

    def subscribe(
        self,
        topics: list[str],
        on_assign: _Told | None = None,
        on_revoke: _Told | None = None,
        on_lost: _Told | None = None,
    ) -> None:
        """As the library's. `on_assign` may set offsets of the partitions; it does not assign them."""

        def assigned(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if on_assign is not None:
                on_assign(self, partitions)
            if self._is_incremental:
                self.incremental_assign(partitions)
            else:
                self.assign(partitions)
            self.resume(partitions)  # one that was paused when it went may come back
            self._heeding.assign(_places(partitions))
            self._look()  # before the first record of them

        def revoked(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if on_revoke is not None:
                on_revoke(self, partitions)
            self._gone(partitions)

        def lost(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            (on_lost or on_revoke or _nothing)(self, partitions)
            self._gone(partitions)

        super().subscribe(topics, on_assign=assigned, on_revoke=revoked, on_lost=lost)

    def poll(self, timeout: float | None = None) -> Message | None:
        """As the library's; None also when all that came is held."""
        for left_s in _slices(timeout):
            self._obey()
            message = super().poll(left_s)
            if message is not None and self._may_take(message):
                return message
        return None

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Message]:
        """As the library's."""
        for left_s in _slices(timeout):
            self._obey()
            taken = [message for message in super().consume(num_messages, left_s) if self._may_take(message)]
            if taken:
                return taken
        return []

    def close(self) -> None:
        """Leave the group, and say so where a hold is obeyed."""
        if self._teller is not None:
            for ack in self._heeding.leave():
                self._teller.tell(ack)
            self._teller.flush(_LEAVE_S)
            self._teller = None  # the library holds us by our callbacks, and we would hold its client
        self._status.close()
        super().close()

    def _obey(self) -> None:
        if time.monotonic() < self._obey_at_s:
            return
        self._status.follow()
        self._obey_at_s = time.monotonic() + _FOLLOW_S
        self._look()
        if self._heeding.unsettled and time.monotonic() >= self._try_at_s:
            self._settle()
        if self._teller is not None:
            member = self.memberid()
            for ack in self._heeding.due(member) if member else ():
                self._teller.tell(ack, self._heeding.told)
            self._teller.poll()

    def _look(self) -> None:
        todo = self._heeding.look(self._status.book.held(self._heeding.topics))
        if todo.pause:
            self.pause(_partitions(todo.pause))
        if todo.resume:
            self.resume(_partitions(todo.resume))
            for place in todo.resume:
                if place in self._not_taken:
                    self.seek(TopicPartition(*place, self._not_taken.pop(place)))

    def _settle(self) -> None:
        """Finish and commit what is paused. What does not work now, as during a rebalance, is tried again."""
        self._try_at_s = time.monotonic() + _TRY_AGAIN_S
        places = self._heeding.unsettled
        if self._drain(_partitions(places)) is False:
            return
        try:
            offsets = self._positions(places)
            at = [TopicPartition(*place, offset) for place, offset in offsets.items() if offset is not None]
            if self._commits and at:
                done = self.commit(offsets=at, asynchronous=False)
                if any(one.error is not None for one in done or ()):
                    return
        except KafkaException:
            return
        self._heeding.settle(offsets)

    def _positions(self, places: Iterable[Place]) -> dict[Place, int | None]:
        """The next offset to read: after the last record handed out, else what is committed, else None."""
        found: dict[Place, int | None] = {}
        for where in self.position(_partitions(places)):
            found[where.topic, where.partition] = where.offset if where.offset >= 0 else None
        found |= {place: self._not_taken[place] for place in found if place in self._not_taken}
        unknown = [place for place, offset in found.items() if offset is None]
        for where in self.committed(_partitions(unknown), timeout=_ASK_S) if unknown else ():
            if where.error is not None:
                raise KafkaException(where.error)
            found[where.topic, where.partition] = where.offset if where.offset >= 0 else None
        return found

    def _may_take(self, message: Message) -> bool:
        """A record that was on its way when its partition was paused is read again later."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if message.error() is not None or topic is None or partition is None or offset is None:
            return True
        if not self._heeding.is_paused((topic, partition)):
            return True
        self._not_taken[topic, partition] = min(offset, self._not_taken.get((topic, partition), offset))
        return False

    def _gone(self, partitions: list[TopicPartition]) -> None:
        self._heeding.revoke(_places(partitions))
        for place in _places(partitions):
            self._not_taken.pop(place, None)


def _is_incremental(config: Mapping[str, Any]) -> bool:
    strategy = str(config.get("partition.assignment.strategy", ""))
    return "cooperative" in strategy or config.get("group.protocol") == "consumer"


def _slices(timeout: float | None) -> Iterable[float]:
    """The waits that make up a timeout: at least one, none longer than a look may wait."""
    if timeout is None or timeout < 0:
        while True:
            yield _LOOK_S
    deadline_s = time.monotonic() + timeout
    yield min(timeout, _LOOK_S)
    while (left_s := deadline_s - time.monotonic()) > 0:
        yield min(left_s, _LOOK_S)


def _places(partitions: Iterable[TopicPartition]) -> list[Place]:
    return [(where.topic, where.partition) for where in partitions]


def _partitions(places: Iterable[Place]) -> list[TopicPartition]:
    return [TopicPartition(*place) for place in places]


def _nothing(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
    return

"""Questions about the topics of a recovery: whether they are still the planned ones, where they begin and end, which
records they take.

A topic that is deleted and created again keeps its name and gets a new id. The lane asks for the ids after it read and
wrote a chunk and before it commits it, so an unchanged id proves that the chunk came from, and went to, the planned
topics. All answers have deadlines.

A caller that must not block asks in steps: by generators that yield the future they wait for, and go on when they are
resumed.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from recoveryd_jobs import errors
from recoveryd_jobs.clients import (
    ASK_TIMEOUT_S,
    COMMITTED_END,
    START,
    UNCOMMITTED_END,
    make_admin,
    shut_out,
    start_offset_query,
)
from recoveryd_jobs.contract import SourceSpec, TargetSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.shared.agreement import NotAgreed, agree, sight_of
from recoveryd_jobs.shared.leaders import knows_leaders, learn_leaders

_GONE_AFTER_S = 6.0  # a broker that just started may not know its topics for a moment
_SILENT_S = ASK_TIMEOUT_S + 2.0  # and what was said before a longer silence may have been such a moment
_PAUSE_S = 0.5
_MAX_MESSAGE_BYTES = 1_048_588
_STEP_S = 0.2
_NEVER: "Future[None]" = Future()

T = TypeVar("T")


class NoAnswer(Exception):  # noqa: N818  (says what happened; the caller decides what it means)
    """The cluster did not answer in time."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Log start, last stable offset and high watermark of a partition."""

    start: int
    stable: int
    high: int


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """`is_stamped`: the broker replaces the time of each record (LogAppendTime), so times cannot be compared.

    `is_compacted`: records may disappear from the middle of the log.
    """

    max_message_bytes: int = _MAX_MESSAGE_BYTES
    is_stamped: bool = False
    is_compacted: bool = False


def _settings(configs: Mapping[str, Any]) -> TopicSettings:
    told = {name: entry.value for name, entry in configs.items() if entry.value is not None}
    return TopicSettings(
        int(told.get("max.message.bytes", _MAX_MESSAGE_BYTES)),
        told.get("message.timestamp.type") == "LogAppendTime",
        "compact" in told.get("cleanup.policy", ""),
    )


def pause(seconds: float) -> Generator["Future[Any]", None, None]:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        yield _NEVER


def _answered(answer: "Future[Any]") -> Generator["Future[Any]", None, None]:
    """Ends when the answer is there, or cannot come any more."""
    until_s = time.monotonic() + ASK_TIMEOUT_S + 1.0
    while not answer.done() and time.monotonic() < until_s:
        yield answer


def take_steps(steps: Generator["Future[Any]", None, T], waiting: Callable[[], None] = lambda: None) -> T:
    """Run all steps and return the result; `waiting` is called again and again meanwhile, and may raise."""
    while True:
        try:
            awaited = next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        waiting()
        wait([awaited], _STEP_S)


class _Admin:
    """An admin client shared by several topics, which can be replaced for all of them."""

    def __init__(self, client: dict[str, str], client_id: str) -> None:
        self._client, self._client_id = client, client_id
        self.admin: AdminClient = make_admin(client, client_id)

    def shut_out(self) -> str:
        """What keeps us out of the cluster, if it says so."""
        return shut_out(self._client, self._client_id)

    def renew(self) -> None:
        """Make a new client: after a change of leaders or a freeze, a client may keep an old leader epoch, or no
        controller, for ever.
        """
        self.admin = make_admin(self._client, self._client_id)

    def learn_leaders(self, topic: str) -> "Future[None]":
        """Ends with None or a KafkaException."""
        answer: Future[None] = Future()
        threading.Thread(target=_settle, args=(answer, self.admin, topic), name="leaders", daemon=True).start()
        return answer

    def beginning_at(self, address: str) -> AdminClient:
        """Another client, which asks one broker first; "" = those of the properties."""
        first = {"bootstrap.servers": address} if address else {}
        return make_admin({**self._client, **first}, self._client_id)


def _settle(answer: "Future[None]", admin: AdminClient, topic: str) -> None:
    try:
        learn_leaders(admin, topic, ASK_TIMEOUT_S)
    except KafkaException as error:
        answer.set_exception(error)
    else:
        answer.set_result(None)


def unwritable(spec: TargetSpec, client_id: str, topics: Iterable[str]) -> list[str]:
    """Those of `topics` that the user may not write to, by the cluster's answer; empty also when it does not answer."""
    admin = make_admin(spec.client, client_id)  # held until the answers are there
    asked = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=ASK_TIMEOUT_S
    )
    found = []
    for topic, answer in asked.items():
        try:
            allowed = answer.result(ASK_TIMEOUT_S + 1.0).authorized_operations or ()
            may_write = any(operation.name == "WRITE" for operation in allowed)
        except KafkaException as error:
            may_write = not errors.is_refusal(error.args[0])
        except TimeoutError:
            may_write = True
        if not may_write:
            found.append(topic)
    return found


class Topic:
    """One planned topic, asked through an admin client of its own, or the one of the topic `beside` it on the same
    cluster.

    `changed`: the error code to raise when it is another topic now, or gone.
    """

    def __init__(
        self,
        spec: SourceSpec | TargetSpec,
        side: str,
        client_id: str,
        changed: str = "topic_recreated",
        beside: "Topic | None" = None,
    ) -> None:
        self.name = spec.topic
        self._id = spec.topic_id
        self._side = side
        self._changed = changed
        self.asker: _Admin = _Admin(spec.client, client_id) if beside is None else beside.asker
        self._missing_s: tuple[float, float] | None = None  # since when it is said to be missing, and when it last was

    def ask_id(self) -> "Future[Any]":
        """Start asking for the topic's id; `check_id` takes the answer. The caller can work meanwhile."""
        topics = TopicCollection([self.name])
        return self.asker.admin.describe_topics(topics, request_timeout=ASK_TIMEOUT_S)[self.name]

    def _settle_id(self, answer: "Future[Any]") -> int:
        """How many partitions one broker knows, from an answer that is there or does not come any more."""
        try:
            described = answer.result(0)
            found = str(described.topic_id)
        except KafkaException as error:
            self._judge(error.args[0])
            self.asker.renew()
            raise NoAnswer(f"{self._side} {self.name}: {error.args[0].str()}") from None
        except TimeoutError:
            self.asker.renew()
            raise NoAnswer(f"{self._side} {self.name}: no answer in {ASK_TIMEOUT_S:.0f} s") from None
        self._missing_s = None
        if found != self._id:
            raise JobError(
                self._changed,
                f"The {self._side} topic {self.name} was deleted and made again: its id is {found}, planned was "
                f"{self._id}.",
            )
        return len(described.partitions)

    def check_id(
        self,
        deadline_s: float,
        waiting: Callable[[], None] = lambda: None,
        asked: "Future[Any] | None" = None,
    ) -> int:
        """Ask until there is an answer, beginning with that to the question `asked`: how many partitions one broker
        knows.

        Raises JobError; NoAnswer after `deadline_s` (monotonic); and what `waiting` raises.
        """
        return take_steps(self.check_in_steps(deadline_s, asked), waiting)

    def check_in_steps(
        self, deadline_s: float, asked: "Future[Any] | None" = None
    ) -> Generator["Future[Any]", None, int]:
        answer = asked or self.ask_id()
        while True:
            yield from _answered(answer)
            try:
                return self._settle_id(answer)
            except NoAnswer:
                if time.monotonic() >= deadline_s:
                    raise
            yield from pause(_PAUSE_S)
            answer = self.ask_id()

    def width(self, deadline_s: float) -> int:
        """How many partitions it has, once all brokers agree about them. Raises JobError; NoAnswer after `deadline_s`
        (monotonic).
        """
        try:
            return agree(
                lambda: self.check_id(deadline_s),
                lambda partitions: partitions,
                lambda address: sight_of(self.asker.beginning_at(address), self.name),
                deadline_s,
            )
        except NotAgreed as doubt:
            raise NoAnswer(f"{self._side} {self.name}: {doubt}") from None

    @property
    def unavailable(self) -> str:
        """The error code for a cluster that does not give what is asked for."""
        return "source_unavailable" if self._side == "source" else "target_unavailable"

    def naming(self) -> "AbstractContextManager[None]":
        """For calls that the client may refuse at once: a KafkaException becomes a JobError of this side."""
        return errors.naming_side(self._side)

    def unanswered(self, silence: NoAnswer) -> JobError:
        """The end of all patience, with the side that did not answer, and what it told our login."""
        return JobError(
            self.unavailable, f"The cluster of the {self._side} does not answer: {silence}{self.shut_out()}."
        )

    def shut_out(self) -> str:
        """To be put behind a message: why the cluster does not let us in, "" when it does or says nothing."""
        why = self.asker.shut_out()
        return f"; it does not let us in: {why}" if why else ""

    def bounds(self, partitions: Iterable[int]) -> dict[int, LogBounds]:
        """Raises NoAnswer when the cluster does not answer, JobError when the topic is gone or may not be read."""
        return take_steps(self.bounds_in_steps(partitions))

    def bounds_in_steps(self, partitions: Iterable[int]) -> Generator["Future[Any]", None, dict[int, LogBounds]]:
        wanted = [TopicPartition(self.name, p) for p in partitions]
        try:
            starts = yield from self._offsets(wanted, START)
            stable = yield from self._offsets(wanted, COMMITTED_END)
            high = yield from self._offsets(wanted, UNCOMMITTED_END)
        except NoAnswer:
            self.asker.renew()
            raise
        return {p.partition: LogBounds(starts[p.partition], stable[p.partition], high[p.partition]) for p in wanted}

    def settings(self, deadline_s: float, waiting: Callable[[], None] = lambda: None) -> TopicSettings:
        """The settings that affect records, asked for until there is an answer: lanes and proof must not differ in what
        they take for granted. Kafka's default for a setting that an answer leaves out.

        Raises JobError without the right to ask; NoAnswer after `deadline_s` (monotonic); and what `waiting` raises.
        """
        return take_steps(self._settings_in_steps(deadline_s), waiting)

    def _settings_in_steps(self, deadline_s: float) -> Generator["Future[Any]", None, TopicSettings]:
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        while True:
            asked = self.asker.admin.describe_configs([resource], request_timeout=ASK_TIMEOUT_S)[resource]
            yield from _answered(asked)
            try:
                return _settings(asked.result(0))
            except KafkaException as error:
                self._judge(error.args[0], "DescribeConfigs")
                silence = error.args[0].str()
            except TimeoutError:
                silence = f"no answer in {ASK_TIMEOUT_S:.0f} s"
            self.asker.renew()
            if time.monotonic() >= deadline_s:
                raise NoAnswer(f"settings of {self._side} {self.name}: {silence}")
            yield from pause(_PAUSE_S)

    def _offsets(self, wanted: list[TopicPartition], which: str) -> Generator["Future[Any]", None, dict[int, int]]:
        admin = self.asker.admin
        if not knows_leaders(admin, self.name):
            yield from self._answer(self.asker.learn_leaders(self.name))
        found: dict[int, int] = {}
        for partition, asked in start_offset_query(admin, wanted, which).items():
            answer = yield from self._answer(asked)
            found[partition.partition] = int(answer.offset)
        self._missing_s = None
        return found

    def _answer(self, asked: "Future[T]") -> Generator["Future[Any]", None, T]:
        yield from _answered(asked)
        try:
            return asked.result(0)
        except KafkaException as error:
            self._judge(error.args[0])
            raise NoAnswer(f"{self._side} {self.name}: {error.args[0].str()}") from None
        except TimeoutError:
            raise NoAnswer(f"{self._side} {self.name}: no answer in {ASK_TIMEOUT_S:.0f} s") from None

    def _judge(self, error: KafkaError, operation: str = "Read") -> None:
        """Raises when the error is final: no right to ask, or the topic has been missing for a while.

        A user with the right to read may describe too. So one who may not describe lacks the right to read, and that is
        what the message names.
        """
        if errors.is_refusal(error):
            told = errors.refusal(error, operation, self.name)
            code = "not_authorised" if self._side == "source" else "target_not_authorised"
            raise JobError(code, f"The {self._side} topic {self.name} may not be asked about: {told}")
        if not errors.is_no_topic(error):
            return
        now_s = time.monotonic()
        since_s, last_s = self._missing_s or (now_s, now_s)
        if now_s - last_s > _SILENT_S:
            since_s = now_s
        self._missing_s = since_s, now_s
        if now_s - since_s >= _GONE_AFTER_S:
            raise JobError(self._changed, f"The {self._side} topic {self.name} ({self._id}) does not exist any more.")

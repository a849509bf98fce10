"""Follows recoveryd's own topics, as any program may: status, events, dead letters and progress, decoded as plain JSON.

One thread reads; tests ask and wait with a deadline. It uses nothing of the product.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import KafkaError, TopicPartition

from tests.e2e.log_reader import Record, assign, make_reader, offsets, to_record
from tests.patience import patient_s

T = TypeVar("T")
Document = Mapping[str, Any]

_POLL_S = 0.1
_FETCH_WAIT_MS = 400  # a record comes at once nevertheless, and the end behind a marker after this
_BATCH_RECORDS = 500
_HEARTBEATS_MAX = 50_000
_STOP_DEADLINE_S = 120.0
_OVER = frozenset({"completed", "stopped", "failed", "rejected", "expired", "planned"})


class Follower:
    """All records of the own topics from their beginnings. Times are monotonic seconds of this process, taken when a
    record was read.
    """

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap = bootstrap
        self._status_topic = f"{prefix}status.v1"
        self._events_topic = f"{prefix}events.v1"
        self._letters_topic = f"{prefix}control.v1.dlq"
        self._progress_topic = f"{prefix}progress.v1"
        self._news = threading.Condition()
        self._ended = threading.Event()
        self._statuses: dict[str, list[tuple[float, Document]]] = {}
        self._events: list[Document] = []
        self._by_cause: dict[str, list[Document]] = {}  # some tests ask for each of thousands of commands
        self._letters: list[Record] = []
        self._heartbeats: list[tuple[float, Document]] = []
        self._read_to: dict[str, int] = {}  # by topic
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"follower-{prefix}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(_STOP_DEADLINE_S)

    def status(self, recovery: str) -> Document | None:
        """The newest record."""
        with self._news:
            found = self._statuses.get(recovery)
            return found[-1][1] if found else None

    def statuses(self, recovery: str) -> list[Document]:
        """All records of the recovery seen, oldest first."""
        with self._news:
            return [document for _, document in self._statuses.get(recovery, ())]

    def states(self, recovery: str) -> list[str]:
        """The states it went through, each once per stay."""
        found: list[str] = []
        for document in self.statuses(recovery):
            if not found or found[-1] != document["state"]:
                found.append(document["state"])
        return found

    def events(
        self, *, subject: str | None = None, kind: str | None = None, cause: str | None = None
    ) -> list[Document]:
        """CloudEvents of the events topic; `kind` is the short type, such as `command_accepted`."""
        with self._news:
            found = list(self._events if cause is None else self._by_cause.get(cause, ()))
        return [
            e for e in found
            if (subject is None or e.get("subject") == subject)
            and (kind is None or e["type"] == f"io.recoveryd.event.{kind}.v1")
        ]  # fmt: skip

    def answers(self, command_id: str) -> list[Document]:
        return [e for e in self.events(cause=command_id) if ".command_" in e["type"]]

    def dead_letters(self) -> list[Record]:
        with self._news:
            return list(self._letters)

    def heartbeats(self, recovery: str, *, driver: bool) -> list[tuple[float, Document]]:
        """The heartbeats of the driver, or of the lanes that copy."""
        return [(at, h) for at, h in self._of(recovery) if (driver if "lane" not in h else not driver and _copies(h))]

    def verifying(self, recovery: str) -> list[tuple[float, Document]]:
        """The heartbeats of the tasks of its verification."""
        return [(at, h) for at, h in self._of(recovery) if "lane" in h and not _copies(h)]

    def _of(self, recovery: str) -> list[tuple[float, Document]]:
        with self._news:
            return [(at, h) for at, h in self._heartbeats if h.get("recovery") == recovery]

    def wait(self, question: Callable[[], T], deadline_s: float, about: str) -> T:
        """Asks again after each record read, until the answer is true-ish. Raises AssertionError with `about` and the
        newest statuses.
        """
        give_up_at_s = time.monotonic() + patient_s(deadline_s)
        while True:
            answer = question()
            if answer:
                return answer
            if self._failure is not None:
                raise AssertionError(f"the follower failed: {self._failure!r}")
            left_s = give_up_at_s - time.monotonic()
            if left_s <= 0:
                raise AssertionError(f"not within {deadline_s:.0f} s: {about}. {self._summary()}")
            with self._news:
                self._news.wait(min(left_s, 0.25))

    def catch_up(self) -> None:
        """Returns when the statuses and events were read that are written by now. What one transaction wrote to both
        comes topic by topic: who has seen a status may still be without the event of the same moment.
        """
        topics = (self._status_topic, self._events_topic)
        wanted = {topic: offsets(self._bootstrap, topic, end=True)[0] for topic in topics}

        def is_read() -> bool:
            with self._news:
                return all(self._read_to.get(topic, 0) >= end for topic, end in wanted.items())

        self.wait(is_read, 60.0, f"all that is written up to {wanted}, read is {self._read_to}")

    def wait_state(self, recovery: str, states: str | Iterable[str], deadline_s: float = 60.0) -> Document:
        """The newest status record once its state is one of `states`. Another terminal state ends the wait at once.
        With a terminal state, the events of its moment are there too.
        """
        wanted = {states} if isinstance(states, str) else set(states)
        ended = _OVER - wanted

        def look() -> Document | None:
            document = self.status(recovery)
            if document is not None and document["state"] in ended:
                raise AssertionError(f"{recovery} is {document['state']}, not {wanted}: {document['why']}")
            return document if document is not None and document["state"] in wanted else None

        found = self.wait(look, deadline_s, f"{recovery} in {wanted}")
        assert found is not None
        if found["state"] in _OVER:
            self.catch_up()
        return found

    def wait_answer(self, command_id: str, deadline_s: float = 30.0) -> Document:
        return self.wait(lambda: self.answers(command_id), deadline_s, f"an answer to {command_id}")[0]

    def driver_pid(self, recovery: str, attempt: int, deadline_s: float = 60.0) -> int:
        """The driver's process id, from its heartbeats."""

        def look() -> int:
            reports = self.heartbeats(recovery, driver=True)
            return next((h["pid"] for _, h in reports if h["attempt"] == attempt and h["pid"]), 0)

        return self.wait(look, deadline_s, f"a driver report of {recovery} attempt {attempt}")

    def _summary(self) -> str:
        with self._news:
            newest = {name: found[-1][1] for name, found in self._statuses.items() if name != "_daemon"}
        return "Newest: " + "; ".join(f"{n} {d['state']} ({d['why']})" for n, d in list(newest.items())[-5:])

    def _run(self) -> None:
        topics = (self._status_topic, self._events_topic, self._letters_topic, self._progress_topic)
        reader = make_reader(self._bootstrap, committed=True, fetch_wait_ms=_FETCH_WAIT_MS)
        try:
            assign(reader, (TopicPartition(topic, 0, 0) for topic in topics))
            while not self._ended.is_set():
                messages = reader.consume(_BATCH_RECORDS, timeout=_POLL_S)
                if not messages:
                    continue
                with self._news:
                    for message in messages:
                        self._take(message)
                    self._news.notify_all()
        except BaseException as error:  # noqa: BLE001  (told by `wait`)
            self._failure = error
        finally:
            reader.close()

    def _take(self, message: Any) -> None:
        error, topic = message.error(), message.topic()
        if error is not None:
            if error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}:
                raise AssertionError(str(error))
            if error.code() == KafkaError._PARTITION_EOF:
                self._read_to[topic] = message.offset()  # beyond the markers of transactions, which are no records
            return  # the broker may be away, as many of these tests want
        record, now_s = to_record(message), time.monotonic()
        self._read_to[topic] = record.offset + 1
        if topic == self._letters_topic:
            self._letters.append(record)
        elif record.value is None:
            return
        elif topic == self._status_topic:
            self._statuses.setdefault((record.key or b"").decode(), []).append((now_s, json.loads(record.value)))
        elif topic == self._events_topic:
            event = json.loads(record.value)
            self._events.append(event)
            self._by_cause.setdefault(event.get("causationid", ""), []).append(event)
        else:
            self._heartbeats.append((now_s, json.loads(record.value)))
            del self._heartbeats[:-_HEARTBEATS_MAX]


def _copies(heartbeat: Document) -> bool:
    return bool(heartbeat.get("phase", "copy") == "copy")

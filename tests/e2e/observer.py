"""A read_committed reader that follows a target during a copy, and remembers its position each time it had read
everything visible (for I9).
"""

import contextlib
import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.e2e.clients import client
from tests.e2e.log_reader import QUIET, assign, make_reader, offsets
from tests.e2e.model import Observed
from tests.patience import patient_s

_POLL_S = 0.05
_FETCH_WAIT_MS = 250  # it follows for as long as a copy takes, and a record comes at once nevertheless
_BATCH_RECORDS = 5_000
_STOP_DEADLINE_S = 120.0


class TargetObserver:
    """Follows `topic`, which may appear later, from its start (or `starts`). Use as a context manager; Call
    `observed()` after the copy.
    """

    def __init__(self, bootstrap: str, topic: str, starts: dict[int, int] | None = None) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._starts = starts
        self._offsets: dict[int, list[int]] = {}
        self._prefixes: dict[int, list[int]] = {}
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"observer-{topic}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(_STOP_DEADLINE_S)
        if self._thread.is_alive():
            raise AssertionError(f"the observer of {self._topic} does not end")

    def observed(self, deadline_s: float = 30.0) -> Observed:
        """Waits until the reader is at the present last stable offsets, ends it, and returns what it saw."""
        self.observed_to_the_end(deadline_s)
        self.close()
        return Observed(dict(self._offsets), dict(self._prefixes))

    def observed_to_the_end(self, deadline_s: float = 30.0) -> None:
        """Waits until the reader is at the present last stable offsets."""
        ends = {p: end for p, end in offsets(self._bootstrap, self._topic, end=True, committed=True).items() if end > 0}
        give_up_at_s = time.monotonic() + patient_s(deadline_s)
        while any((self._prefixes.get(p) or [0])[-1] < end for p, end in ends.items()):
            if self._failure is not None or not self._thread.is_alive() or time.monotonic() > give_up_at_s:
                raise AssertionError(f"the observer of {self._topic} did not reach {ends}: {self._failure!r}")
            time.sleep(_POLL_S)

    def _run(self) -> None:
        try:
            if self._await_topic():
                self._follow()
        except BaseException as error:  # noqa: BLE001  (told by `observed`)
            self._failure = error

    def _await_topic(self) -> bool:
        admin = AdminClient({**client(self._bootstrap), **QUIET})
        known = None
        while not self._ended.is_set():
            with contextlib.suppress(KafkaException):  # the broker may be away
                # By its name: a run's broker comes to have thousands of topics.
                known = admin.list_topics(self._topic, timeout=60).topics.get(self._topic)
            if known is not None and known.error is None and known.partitions:
                return True
            self._ended.wait(_POLL_S)
        return False

    def _follow(self) -> None:
        starts = offsets(self._bootstrap, self._topic, end=False) if self._starts is None else self._starts
        reader = make_reader(self._bootstrap, committed=True, fetch_wait_ms=_FETCH_WAIT_MS)
        try:
            assign(reader, (TopicPartition(self._topic, p, start) for p, start in starts.items()))
            while not self._ended.is_set():
                for message in reader.consume(_BATCH_RECORDS, timeout=_POLL_S):
                    self._note(message.partition(), message.offset(), message.error())
        finally:
            reader.close()

    def _note(self, partition: int | None, offset: int | None, error: KafkaError | None) -> None:
        if partition is None or offset is None:
            return
        if error is None:
            self._offsets.setdefault(partition, []).append(offset)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._prefixes.setdefault(partition, []).append(offset)

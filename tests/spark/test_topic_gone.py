"""When a topic counts as gone: a broker that just started may not know it for a moment, and one such moment has nothing
to do with the next.
"""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from recoveryd_jobs import topics
from recoveryd_jobs.contract import TargetSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.topics import NoAnswer, Topic

UNKNOWN = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


class Clock:
    now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Asked:
    """A topic of which the cluster says what `told` is: offsets are asked for, as a lane does that begins again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.told = Clock(), 7
        self.is_known = True
        monkeypatch.setattr(topics, "time", self.clock)
        monkeypatch.setattr(topics, "knows_leaders", lambda *_: True)
        monkeypatch.setattr(
            topics, "start_offset_query", lambda _admin, wanted, _which: {p: self.answer() for p in wanted}
        )
        asker = SimpleNamespace(admin=None, renew=lambda: None)
        beside = SimpleNamespace(asker=asker)
        self.topic = Topic(TargetSpec("main", "t", "id", 1, {}), "target", "c", beside=beside)  # type: ignore[arg-type]

    def answer(self) -> "Future[Any]":
        future: Future[Any] = Future()
        if self.is_known:
            future.set_result(SimpleNamespace(offset=self.told))
        else:
            future.set_exception(UNKNOWN)
        return future

    def after(self, seconds: float, *, is_known: bool) -> None:
        self.clock.now_s += seconds
        self.is_known = is_known
        if is_known:
            assert self.topic.bounds([0])[0].high == self.told
            return
        with pytest.raises(NoAnswer):
            self.topic.bounds([0])


def test_a_topic_that_stays_unknown_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    for _ in range(3):
        asked.after(2.0, is_known=False)
    with pytest.raises(JobError, match="does not exist any more"):
        asked.after(3.0, is_known=False)


def test_an_answer_between_says_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    asked.after(0.0, is_known=False)
    asked.after(4.0, is_known=True)
    asked.after(4.0, is_known=False)


def test_two_moments_with_a_silence_between_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    asked.after(0.0, is_known=False)
    asked.after(20.0, is_known=False)
    with pytest.raises(JobError):
        asked.after(7.0, is_known=False)

"""A look at records of a cluster that is slow, does not answer, or refuses."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, TopicPartition

from recoveryd.adapters.kafka import record_samples
from recoveryd.adapters.kafka.record_samples import SAMPLE_S, RecordSample, sample_records
from recoveryd.adapters.kafka.steps import starts
from recoveryd.errors import ClusterProblem

RANGES = {0: (0, 1_000)}
AWAY, NO_RIGHT = KafkaError(KafkaError._TIMED_OUT), KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class SlowCluster:
    """A partition with a record at each offset, whose time is the offset. `answers`: what each question for metadata
    comes to, as an error or as the seconds that it takes; after them it takes none.
    """

    def __init__(self, *answers: KafkaError | float) -> None:
        self.now_s = 0.0
        self.is_closed = False
        self._answers = list(answers)
        self._at: int | None = None

    def list_topics(self, _topic: str, timeout: float) -> None:
        answer = self._answers.pop(0) if self._answers else 0.0
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        self.now_s += min(answer, timeout)
        if answer > timeout:
            raise KafkaException(AWAY)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._at = places[0].offset

    def poll(self, wait_s: float) -> Any:
        self.now_s += wait_s / 100
        if self._at is None:
            return None
        at, self._at = self._at, self._at + 1
        told = {"partition": 0, "offset": at, "key": b"k", "value": b"v", "error": None, "headers": []}
        return FakeMessage(told | {"timestamp": (TIMESTAMP_CREATE_TIME, at)})

    def pause(self, _places: object) -> None:
        self._at = None

    def resume(self, _places: object) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


class FakeMessage(SimpleNamespace):
    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(**{name: lambda value=value: value for name, value in told.items()})


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> Callable[[SlowCluster], RecordSample]:
    def look(cluster: SlowCluster) -> RecordSample:
        monkeypatch.setattr(record_samples, "make_consumer", lambda *_, **__: cluster)
        monkeypatch.setattr(record_samples, "headers_of", lambda _message: ())
        monkeypatch.setattr(record_samples, "time", SimpleNamespace(monotonic=lambda: cluster.now_s))
        return sample_records({}, "orders", RANGES, SAMPLE_S)

    return look


Look = Callable[[SlowCluster], RecordSample]


@pytest.mark.parametrize("connect_s", [0.0, 1.5, 8.0])
def test_a_client_that_connects_slowly_takes_no_time_from_the_look(sample: Look, connect_s: float) -> None:
    found = sample(SlowCluster(connect_s))
    assert (found.oldest_ms, found.first_ms, found.last_ms) == (0, {0: 0}, {0: 999})
    assert (found.largest_bytes, found.bytes_per_offset) == (2, {0: 2.0})


def test_of_a_cluster_that_does_not_answer_nothing_is_known(sample: Look) -> None:
    cluster = SlowCluster(1_000.0)
    assert sample(cluster) == RecordSample()
    assert cluster.now_s <= 10.0
    assert cluster.is_closed


def test_what_was_seen_before_a_cluster_fell_silent_is_kept(sample: Look) -> None:
    found = sample(SlowCluster(0.0, AWAY))
    assert (found.oldest_ms, found.first_ms, found.last_ms) == (0, {0: 0}, {})
    assert found.bytes_per_offset == {0: 2.0}


def test_a_refusal_is_told(sample: Look) -> None:
    cluster = SlowCluster(NO_RIGHT)
    with pytest.raises(ClusterProblem, match="orders") as caught:
        sample(cluster)
    assert not caught.value.retriable
    assert cluster.is_closed


async def test_the_times_of_very_many_topics_of_a_silent_cluster_keep_no_plan_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, asked = SlowCluster(), []

    async def run(_cluster: str, _sample: object, _properties: object, topic: str, *_: object) -> RecordSample:
        asked.append(topic)
        cluster.now_s += 10.0
        return RecordSample()

    monkeypatch.setattr(starts, "time", SimpleNamespace(monotonic=lambda: cluster.now_s), raising=False)
    reach: Any = SimpleNamespace(run=run, clusters={"main": {}})
    looks: list[Any] = [SimpleNamespace(key=(f"t{n}", 0), high_watermark=9) for n in range(20)]
    assert await starts._first_times(reach, "main", {look.key[0]: {0: 5} for look in looks}, looks) == {}
    assert asked == ["t0"]

"""A watch for a diagnosis while the cluster is in trouble, which is when one is wanted."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from recoveryd.adapters.kafka import client, unit_watch
from recoveryd.adapters.kafka.bulk_offsets import Bound, OffsetBounds
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.adapters.kafka.unit_watch import Patience, UnitWatch
from recoveryd.errors import ClusterProblem
from recoveryd.units.diagnosis.seen import Watched
from recoveryd.units.facts import Committed, Group, GroupType, Member, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.model import Unit, UnitKind

UNIT = Unit("app", UnitKind.GROUP, "main", "app", ("in",))
LOADS = ClusterProblem("the coordinator loads")
REFUSED = ClusterProblem("may not", retriable=False)
AWAY = KafkaException(KafkaError(KafkaError._TIMED_OUT))
PATIENCE = Patience(10.0, 35.0)


class Troubled:
    """A topic `in` of one partition, of which the group `app` reads a record at each look. Each question takes a tenth
    of a second. `faults`: by question and its number (from 0), or of all numbers (-1).
    """

    def __init__(self, faults: dict[tuple[str, int], Exception]) -> None:
        self.now_s = 0.0
        self.asked: dict[str, int] = {}
        self._faults = faults

    def _ask(self, what: str) -> None:
        number = self.asked.get(what, 0)
        self.asked[what] = number + 1
        self.now_s += 0.1
        fault = self._faults.get((what, number)) or self._faults.get((what, -1))
        if fault is not None:
            raise fault

    def read_unit(self, _properties: object, _unit: Unit, units: Iterable[Unit], *_: object, **__: object) -> UnitFacts:
        assert list(units) == [UNIT]
        self._ask("facts")
        return UnitFacts(0, {"in": UnitTopic("in", "id", {0: PartitionEnds(0, 1_000)}, 1)}, self._group(0))

    def describe(self, *_: object) -> dict[str, TopicShape]:
        self._ask("topics")
        return {"in": TopicShape("in", "id", {0: 1}, 1)}

    def read_group(self, *_: object, **__: object) -> Group:
        self._ask("group")
        return self._group(self.asked["group"])

    def _group(self, at: int) -> Group:
        member = Member("m", "c", "h", topics=frozenset({"in"}))
        return Group("app", GroupType.CLASSIC, "stable", (member,), {"in": {0: Committed(at)}})

    def ask(self, _shapes: object) -> OffsetBounds:
        bounds = OffsetBounds()
        try:
            self._ask("offsets")
        except ClusterProblem as reason:
            bounds.failure = reason
        bounds.found |= {Bound.START: {"in": {0: 0}}, Bound.END: {"in": {0: 1_000}}, Bound.STABLE: {"in": {0: 1_000}}}
        return bounds

    def list_topics(self, **_: object) -> Any:
        self._ask("replicas")
        return SimpleNamespace(topics={})

    def sleep(self, wait_s: float) -> None:
        assert wait_s >= 0
        self.now_s += wait_s


Watch = Callable[[dict[tuple[str, int], Exception]], tuple[Troubled, Callable[[], Watched]]]


@pytest.fixture
def troubled(monkeypatch: pytest.MonkeyPatch) -> Watch:
    def make(faults: dict[tuple[str, int], Exception]) -> tuple[Troubled, Callable[[], Watched]]:
        cluster = Troubled(faults)
        patches: dict[str, object] = {
            "make_admin": lambda _properties: cluster,
            "BulkOffsets": lambda *_: cluster,
            "read_unit": cluster.read_unit,
            "describe": cluster.describe,
            "read_group": cluster.read_group,
            "time": (clock := SimpleNamespace(monotonic=lambda: cluster.now_s, sleep=cluster.sleep)),
        }
        for name, patch in patches.items():
            monkeypatch.setattr(unit_watch, name, patch)
        monkeypatch.setattr(client, "time", clock)
        now_ms = lambda: int(cluster.now_s * 1000)  # noqa: E731
        return cluster, lambda: UnitWatch({}, None, UNIT).watch(iter([UNIT]), PATIENCE, now_ms)

    return make


@pytest.mark.parametrize(
    "fault",
    [
        ("facts", 0, LOADS),
        ("topics", 0, LOADS),
        ("group", 0, LOADS),
        ("offsets", 0, LOADS),
        ("offsets", 1, LOADS),
        ("replicas", 0, AWAY),
    ],
)
def test_one_answer_that_passes_ends_no_watch(troubled: Watch, fault: tuple[str, int, Exception]) -> None:
    what, number, reason = fault
    cluster, watch = troubled({(what, number): reason})
    watched = watch()
    assert watched.first.group is not None
    assert watched.last.group is not None
    assert watched.seconds >= PATIENCE.least_s
    assert cluster.now_s < PATIENCE.most_s
    assert watched.problems == ()


def test_looks_at_the_group_that_are_not_answered_meanwhile_are_left_out_and_counted(troubled: Watch) -> None:
    cluster, watch = troubled({("group", number): LOADS for number in (2, 3, 5)})
    watched = watch()
    assert len(watched.groups) == cluster.asked["group"] - 3
    assert None not in watched.groups
    assert watched.problems == ("3 looks at the group were not answered, the last one: the coordinator loads",)


def test_a_watch_goes_on_past_its_least_time_where_no_look_was_answered_in_it(troubled: Watch) -> None:
    _, watch = troubled({("group", number): LOADS for number in range(1, 15)})
    assert PATIENCE.least_s < watch().seconds < PATIENCE.most_s


@pytest.mark.parametrize("what", ["facts", "topics", "group", "offsets", "replicas"])
def test_a_cluster_that_never_answers_is_told_once_the_patience_is_over(troubled: Watch, what: str) -> None:
    cluster, watch = troubled({(what, -1): AWAY if what == "replicas" else LOADS})
    with pytest.raises(ClusterProblem) as caught:
        watch()
    assert caught.value.retriable
    assert PATIENCE.most_s <= cluster.now_s <= 2 * PATIENCE.most_s


@pytest.mark.parametrize(("what", "number"), [("facts", 0), ("group", 0), ("group", 3), ("offsets", 1)])
def test_a_refusal_is_told_at_once(troubled: Watch, what: str, number: int) -> None:
    cluster, watch = troubled({(what, number): REFUSED})
    with pytest.raises(ClusterProblem, match="may not"):
        watch()
    assert cluster.now_s < PATIENCE.least_s + 5.0

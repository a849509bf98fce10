"""What is asked about a unit when a cluster refuses, is slow, lists a part only, or goes on meanwhile."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException, TopicPartition

from recoveryd.adapters.kafka import group_facts, guarantees, unit_facts
from recoveryd.adapters.kafka.client import problem
from recoveryd.adapters.kafka.offsets import EARLIEST
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.contract import make_contract
from recoveryd.units.facts import GroupType, UnitFacts
from recoveryd.units.findings import Grade
from recoveryd.units.model import Output, Unit, UnitKind

UNIT = Unit("app", UnitKind.GROUP, "main", "app", ("in",), outputs={"out": Output()})
NO_RIGHT = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
NO_GROUP = KafkaError(KafkaError.GROUP_ID_NOT_FOUND)
AWAY = KafkaError(KafkaError._TIMED_OUT)


class Cluster:
    """Topics `in` and `out` of one partition; `committed` by group, where an error is one of the answer or of one
    partition.
    """

    def __init__(self, groups: Sequence[str] = ("app",)) -> None:
        self.groups = list(groups)
        self.topics, self.hidden = ["in", "out"], frozenset[str]()
        self.list_errors: list[KafkaError] = []
        self.described: dict[str, KafkaError] = {}
        self.committed: dict[str, KafkaException | KafkaError | dict[str, int]] = {"app": {"in": 5}}
        self.end = 10
        self.asked: list[str] = []
        self.on_ask: Callable[[], None] = lambda: None

    def list_topics(self, **_: object) -> Any:
        return SimpleNamespace(topics=dict.fromkeys(self.topics))

    def shape(self, topic: str) -> TopicShape | None:
        if topic in self.hidden:
            raise problem(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), f"describe {topic}", "Describe", topic)
        return TopicShape(topic, f"{topic}-id", {0: 1}, 1) if topic in self.topics else None

    def list_consumer_groups(self, **_: object) -> Future[Any]:
        valid = [SimpleNamespace(group_id=group) for group in self.groups]
        return _done(SimpleNamespace(valid=valid, errors=self.list_errors))

    def describe_consumer_groups(self, groups: Sequence[str], **_: object) -> dict[str, Future[Any]]:
        return {group: self._description(group) for group in groups}

    def _description(self, group: str) -> Future[Any]:
        if group in self.described:
            answer: Future[Any] = Future()
            answer.set_exception(KafkaException(self.described[group]))
            return answer
        state = ConsumerGroupState.EMPTY if group in (*self.groups, *self.committed) else ConsumerGroupState.DEAD
        return _done(SimpleNamespace(members=[], state=state, type=ConsumerGroupType.CLASSIC, partition_assignor=""))

    def consumer(self, _properties: object, *, group_id: str, **_: object) -> Any:
        def committed(keys: Sequence[TopicPartition], timeout: float) -> list[Any]:
            assert timeout > 0
            self.asked.append(group_id)
            self.on_ask()
            told = self.committed.get(group_id, {})
            if isinstance(told, KafkaException):
                raise told
            error = told if isinstance(told, KafkaError) else None
            at = {} if isinstance(told, KafkaError) else told
            return [_Where(key.topic, key.partition, at.get(key.topic, -1001), error) for key in keys]

        return SimpleNamespace(committed=committed, close=lambda: None)


class _Where(SimpleNamespace):
    def __init__(self, topic: str, partition: int, offset: int, error: KafkaError | None) -> None:
        super().__init__(topic=topic, partition=partition, offset=offset, error=error, metadata="", leader_epoch=None)


def _done(value: object) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_result(value)
    return answer


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    patches: dict[str, Callable[..., object]] = {
        "make_admin": lambda _properties: made,
        "describe": lambda _admin, names, _timeout_s: {name: made.shape(name) for name in names},
        "read_offsets": lambda _admin, _keys, spec, _timeout_s: {0: 0 if spec is EARLIEST else made.end},
        "read_configs": lambda _admin, _topic, _timeout_s: {},
    }
    for name, function in patches.items():
        monkeypatch.setattr(unit_facts, name, function)
    monkeypatch.setattr(group_facts, "make_consumer", made.consumer)
    return made


def read() -> UnitFacts:
    return unit_facts.read_unit({}, UNIT, [UNIT], 0)


def test_a_topic_that_the_user_may_not_see_is_not_one_that_does_not_exist(cluster: Cluster) -> None:
    cluster.topics, cluster.hidden = ["out"], frozenset({"in"})
    with pytest.raises(ClusterProblem, match="lacks Describe on Topic in"):
        read()


def test_a_topic_that_is_nowhere_is_left_out(cluster: Cluster) -> None:
    cluster.topics = ["out"]
    assert list(read().topics) == ["out"]


def test_a_group_that_the_user_may_not_see_is_not_one_that_does_not_exist(cluster: Cluster) -> None:
    cluster.groups = []
    cluster.described["app"] = NO_RIGHT
    with pytest.raises(ClusterProblem, match="lacks Describe on Group app") as caught:
        read()
    assert caught.value.code is Code.NOT_AUTHORISED


@pytest.mark.parametrize("described", [{}, {"app": NO_GROUP}])
def test_a_group_that_is_nowhere_is_none(cluster: Cluster, described: dict[str, KafkaError]) -> None:
    cluster.groups, cluster.committed, cluster.described = [], {}, described
    assert read().group is None


def test_a_group_of_a_broker_that_did_not_list_its_groups_is_found(cluster: Cluster) -> None:
    cluster.groups, cluster.list_errors = ["other"], [AWAY]
    facts = read()
    assert facts.group is not None
    assert facts.group.committed["in"][0].offset == 5
    assert "some groups are not listed" in facts.problems[0]


def test_a_partition_without_an_answer_is_not_one_without_an_offset(cluster: Cluster) -> None:
    cluster.committed["app"] = AWAY
    with pytest.raises(ClusterProblem, match="read the offsets of group app"):
        read()


def test_an_application_at_work_does_not_look_as_if_it_were_beyond_the_end(cluster: Cluster) -> None:
    def produce_and_commit() -> None:
        cluster.end += 10
        cluster.committed["app"] = {"in": cluster.end}

    cluster.on_ask = produce_and_commit
    clauses = {clause.name: clause for clause in make_contract(UNIT, read())}
    assert clauses["offsets"].state is Grade.OK


def test_a_sink_connector_reads_as_the_group_that_connect_makes_of_its_name(cluster: Cluster) -> None:
    sink = replace(UNIT, kind=UnitKind.CONNECT)
    cluster.groups, cluster.committed = ["connect-app"], {"connect-app": {"in": 5, "out": 1}}
    facts = unit_facts.read_unit({}, sink, [sink], 0)
    assert facts.group is not None
    assert (facts.group.id, facts.group.committed["in"][0].offset, facts.readers) == ("connect-app", 5, {})


def test_a_connector_may_have_a_group_of_another_name(cluster: Cluster) -> None:
    sink = replace(UNIT, kind=UnitKind.CONNECT)
    found = unit_facts.read_unit({}, sink, [sink], 0).group
    assert found is not None
    assert found.id == "app"


def test_other_groups_that_cannot_be_asked_are_told_and_the_rest_is_shown(cluster: Cluster) -> None:
    cluster.groups += ["away", "billing", "of-streams", "secret", "shared", "shared-2"]
    cluster.described |= {"secret": NO_RIGHT, "of-streams": NO_GROUP, "shared": NO_GROUP, "shared-2": NO_GROUP}
    cluster.committed |= {"billing": {"out": 3}, "of-streams": {"out": 4}, "away": AWAY}
    cluster.committed["shared"] = KafkaException(NO_GROUP)
    facts = read()
    assert facts.readers == {"out": ("billing", "of-streams")}
    assert len(facts.problems) == 1
    assert facts.problems[0].startswith("4 groups did not tell whether they read its outputs, the first is away: ")


def test_very_many_groups_are_asked_up_to_a_bound(cluster: Cluster) -> None:
    cluster.groups += [f"g{number:04}" for number in range(1_203)]
    facts = read()
    assert len(cluster.asked) == 1 + 500
    assert facts.problems == ("of 1203 groups only 500 were asked whether they read its outputs",)


def test_a_cluster_that_fell_silent_is_not_asked_for_hours(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.groups += [f"g{number}" for number in range(300)]
    cluster.committed |= {group: KafkaException(AWAY) for group in cluster.groups if group != "app"}
    now_s = [0.0]

    def wait() -> None:
        now_s[0] += 15.0

    cluster.on_ask = wait
    for module in (unit_facts, group_facts):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    limit, silent = read().problems
    assert now_s[0] <= 150.0
    assert limit == "of 300 groups only 8 were asked whether they read its outputs"
    assert silent.startswith("8 groups did not tell")


def says(answer: object) -> Callable[..., Any]:
    """A question whose answer this is, or which fails so."""

    async def asked(*_args: object) -> object:
        if isinstance(answer, ClusterProblem):
            raise answer
        return answer

    return asked


SILENT = ClusterProblem("broker 2 does not answer")
REFUSED = ClusterProblem("may not", retriable=False)
NEWER = {"app": GroupType.STREAMS}


@pytest.mark.parametrize(
    ("newer", "internal", "why"),
    [(SILENT, {}, "are not listed"), (NEWER, SILENT, "is not told"), (REFUSED, {}, "are not listed")],
)
@pytest.mark.parametrize("for_plan", [True, False])
def test_a_broker_that_does_not_answer_is_told_but_no_plan_is_made_of_the_answers_of_the_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, newer: object, internal: object, why: str, for_plan: bool
) -> None:
    listed: list[bool] = []

    def group(*_: object, is_listed: bool) -> None:
        listed.append(is_listed)

    monkeypatch.setattr(unit_facts, "newer_groups", says(newer))
    monkeypatch.setattr(unit_facts, "internal_topics_of", says(internal))
    monkeypatch.setattr(unit_facts, "read_group", group)
    monkeypatch.setattr(
        unit_facts, "read_guarantee", lambda *_, **__: SimpleNamespace(is_exactly_once=None, why="not looked up")
    )
    cluster.groups = []

    def look() -> UnitFacts:
        return unit_facts.read_unit({}, UNIT, [UNIT], 0, ClientAccess("b"), for_plan=for_plan)

    if for_plan and SILENT in (newer, internal):
        with pytest.raises(ClusterProblem, match="broker 2") as caught:
            look()
        assert caught.value.retriable
        return
    assert why in look().problems[0]
    assert listed == [for_plan or newer is NEWER]


@pytest.mark.parametrize("reason", [SILENT, REFUSED])
@pytest.mark.parametrize("for_plan", [True, False])
def test_a_plan_waits_for_who_wrote_the_internal_topics_and_others_are_told_that_it_is_not_known(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, reason: ClusterProblem, for_plan: bool
) -> None:
    monkeypatch.setattr(unit_facts, "newer_groups", says({}))
    monkeypatch.setattr(unit_facts, "read_group", lambda *_, **__: None)
    monkeypatch.setattr(guarantees, "_ask", says(reason))
    streams = replace(UNIT, kind=UnitKind.STREAMS)

    def look(**more: bool) -> UnitFacts:
        return unit_facts.read_unit({}, streams, [streams], 0, ClientAccess("b"), for_plan=for_plan, **more)

    if for_plan and reason.retriable:
        with pytest.raises(ClusterProblem, match="broker 2") as caught:
            look()
        assert caught.value.retriable
    else:
        told = look()
        assert (told.is_exactly_once, told.guarantee_why) == (None, f"it could not be asked: {reason.message}")
    assert look(with_guarantee=False).is_exactly_once is None

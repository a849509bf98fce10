"""What the rules say of a unit, one row per finding: everything is well but for one thing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.units.facts import Group, GroupPart, GroupType, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.findings import Grade
from recoveryd.units.internal_topics import InternalTopics
from recoveryd.units.lint import is_stateful, lint
from recoveryd.units.model import Behaviour, Output, Unit, UnitKind
from tests.units.test_topology import topology

HOUR_MS = 3_600_000


def topic(name: str, partitions: int = 3, **configs: str) -> UnitTopic:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return UnitTopic(name, f"id-{name}", {p: PartitionEnds(0, 10) for p in range(partitions)}, 1, named)


WORDS = Unit(
    name="words",
    kind=UnitKind.STREAMS,
    cluster="main",
    group="app",
    inputs=("words",),
    outputs={"counts-out": Output(Behaviour.IDEMPOTENT, "reports")},
    topology=topology("word-count"),
    owner="team",
    approvers=("//ops/kim",),
    retention_objective_ms=72 * HOUR_MS,
)
NAMES = ("words", "counts-out", "app-counts-repartition", "app-counts-changelog")
WELL = UnitFacts(0, {name: topic(name) for name in NAMES}, internal=InternalTopics(NAMES[2:]))

Change = Callable[[Unit, UnitFacts], tuple[Unit, UnitFacts]]


def unit(**changes: object) -> Change:
    return lambda unit, facts: (replace(unit, **changes), facts)  # type: ignore[arg-type]


def facts(**changes: object) -> Change:
    return lambda unit, facts: (unit, replace(facts, **changes))  # type: ignore[arg-type]


def topics(*new: UnitTopic, without: str = "") -> Change:
    def change(unit: Unit, facts: UnitFacts) -> tuple[Unit, UnitFacts]:
        found = {name: t for name, t in facts.topics.items() if name != without} | {t.name: t for t in new}
        return unit, replace(facts, topics=found)

    return change


def told_by_group(*read: str) -> Change:
    """Without a topology in the config, what a group of the `streams` protocol told its broker."""
    part = GroupPart("0", frozenset(read), changelogs=frozenset({"app-counts-changelog"}))
    group = Group("app", GroupType.STREAMS, "stable", is_streams=True, parts=(part,))
    return lambda unit, facts: (replace(unit, topology=None), replace(facts, group=group))


def test_a_unit_that_is_well_kept_has_no_finding() -> None:
    assert lint(WORDS, WELL) == ()


ROWS: list[tuple[Change, str, Grade, str]] = [
    (topics(without="words"), "input_missing", Grade.FAIL, "words"),
    (topics(without="counts-out"), "output_missing", Grade.FAIL, "counts-out"),
    (unit(intermediate=("mid",)), "intermediate_missing", Grade.FAIL, "mid"),
    (unit(inputs=()), "topology_reads_more", Grade.FAIL, "words"),
    (unit(inputs=("words", "counts-out"), outputs={}), "topology_reads_less", Grade.WARN, "counts-out"),
    (told_by_group("words", "more"), "topology_reads_more", Grade.FAIL, "more"),
    (topics(without="app-counts-changelog"), "changelog_missing", Grade.WARN, "counts"),
    (facts(containing_ids=("app-v2",)), "id_is_prefix", Grade.WARN, "app-v2 begins with app-"),
    (unit(retention_objective_ms=None), "no_retention_objective", Grade.WARN, "how far back"),
    (
        facts(internal=InternalTopics(("app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog",))),
        "generated_names",
        Grade.WARN,
        "1 internal topics",
    ),
    (facts(internal=InternalTopics((), (("app-x-changelog", "who knows"),))), "ambiguous_topics", Grade.WARN, "who"),
    (unit(outputs={"counts-out": Output(None, "r")}), "output_undeclared", Grade.WARN, "counts-out"),
    (unit(owner=None), "no_owner", Grade.WARN, "no owner"),
    (unit(approvers=()), "no_owner", Grade.WARN, "no approvers"),
    (topics(topic("words", retention_ms=str(HOUR_MS))), "retention_short", Grade.FAIL, "objective of 72 h"),
    (facts(problems=("2 groups did not tell",)), "not_told", Grade.WARN, "2 groups"),
]


@pytest.mark.scenario("S-RUN-5a", "S-RUN-12", "S-OSO-19")
@pytest.mark.parametrize(("change", "name", "severity", "says"), ROWS, ids=[row[1] for row in ROWS])
def test_each_rule_finds_its_own(change: Change, name: str, severity: Grade, says: str) -> None:
    found = lint(*change(WORDS, WELL))
    assert [(f.name, f.severity) for f in found] == [(name, severity)]
    assert says in found[0].message
    assert found[0].hint


def test_names_with_an_index_are_told_from_those_that_people_chose() -> None:
    generated = (
        "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition",
        "app-KSTREAM-JOINTHIS-0000000004-store-changelog",
        "app-KSTREAM-KEY-SELECT-0000000001-repartition",
        "app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic",
        "app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic",
        "app-orders-STATE-STORE-0000000000-changelog",
    )
    chosen = ("app-counts-changelog", "app-1700000000-changelog", "app-joined-subscription-response-topic")
    found = lint(WORDS, replace(WELL, internal=InternalTopics((*generated, *chosen))))
    assert [f.topics for f in found if f.name == "generated_names"] == [generated]


def test_an_append_only_output_counts_where_somebody_reads_it() -> None:
    appending = replace(WORDS, outputs={"counts-out": Output(Behaviour.APPEND_ONLY, "r")})
    assert lint(appending, WELL) == ()
    found = lint(appending, replace(WELL, readers={"counts-out": ("billing",)}))
    assert [f.name for f in found] == ["append_only_output"]


@pytest.mark.parametrize("kept", ["-1", str(72 * HOUR_MS), str(100 * HOUR_MS)])
def test_retention_as_long_as_the_objective_is_enough(kept: str) -> None:
    assert lint(*topics(topic("words", retention_ms=kept))(WORDS, WELL)) == ()


def test_an_objective_below_an_hour_is_told_as_such() -> None:
    half = replace(WORDS, retention_objective_ms=HOUR_MS // 2)
    (found,) = lint(half, replace(WELL, topics={**WELL.topics, "words": topic("words", retention_ms="600000")}))
    assert found.message == "words is kept shorter than the objective of 0.5 h"


def test_a_compacted_input_is_not_kept_by_time() -> None:
    compacted = topic("words", retention_ms="1000", cleanup_policy="compact")
    assert lint(*topics(compacted)(WORDS, WELL)) == ()


def test_topics_that_are_joined_need_equal_counts() -> None:
    joined = replace(WORDS, inputs=("l", "r"), outputs={}, topology=topology("named-outer-join"))
    stores = [f"app-{store}-changelog" for store in joined.topology.stores] if joined.topology else []
    well = UnitFacts(0, {name: topic(name) for name in ("l", "r", *stores)})
    assert lint(joined, well) == ()
    found = lint(*topics(topic("r", 4))(joined, well))
    assert [f.name for f in found] == ["not_copartitioned"]
    assert "l 3, r 4" in found[0].message


@pytest.mark.scenario("S-RUN-6")
@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (unit(), True),
        (unit(topology=topology("repartition")), False),
        (unit(stateful=False), False),
        (unit(topology=None), True),
        (unit(topology=None, stateful=None, kind=UnitKind.GROUP), None),
    ],
)
def test_whether_it_has_state(change: Change, answer: bool | None) -> None:
    assert is_stateful(*change(WORDS, WELL)) is answer
    assert is_stateful(replace(WORDS, topology=None), UnitFacts(0)) is None

"""The six clauses of a unit's replay contract, one row per thing that changes one of them."""

from dataclasses import replace

import pytest

from recoveryd.units.contract import look_at_contract, make_contract, version_of
from recoveryd.units.facts import Committed, Group, GroupType, UnitFacts
from recoveryd.units.findings import Grade
from recoveryd.units.lint import lint
from recoveryd.units.model import Behaviour, ClauseName, Output, Unit
from tests.units.test_lint import HOUR_MS, WELL, WORDS, Change, topic, topics, unit
from tests.units.test_topology import topology

GROUP = Group("app", GroupType.CLASSIC, "empty", committed={"words": {p: Committed(5) for p in range(3)}})
TOLD = replace(WORDS, schema="one subject each, backward compatible", is_deterministic=True)
KNOWN = replace(WELL, group=GROUP)


def committed(*offsets: int) -> Change:
    rows = {"words": {p: Committed(at) for p, at in enumerate(offsets)}} if offsets else {}
    return lambda unit, facts: (unit, replace(facts, group=replace(GROUP, committed=rows)))


def nobody(unit: Unit, facts: UnitFacts) -> tuple[Unit, UnitFacts]:
    return unit, replace(facts, group=None)


@pytest.mark.scenario("S-RUN-3", "S-RUN-9")
def test_a_unit_of_which_everything_is_told_and_well_has_six_good_clauses() -> None:
    clauses = make_contract(TOLD, KNOWN)
    assert [c.name for c in clauses] == [
        "retention", "offsets", "topic_design", "schema", "determinism", "output_idempotence",
    ]  # fmt: skip
    assert {c.state for c in clauses} == {Grade.OK}
    assert all(c.told for c in clauses)


def test_no_offset_is_asked_for_where_only_a_global_table_reads() -> None:
    joined = replace(TOLD, inputs=("words", "g"), topology=topology("global-table"))
    facts = replace(KNOWN, topics={**KNOWN.topics, "g": topic("g")})
    assert {c.name: c.state for c in make_contract(joined, facts)}["offsets"] is Grade.OK
    assert not [f for f in lint(joined, facts) if f.name == "topology_reads_more"]
    left_out = lint(replace(joined, inputs=("words",)), facts)
    assert [f.message for f in left_out if f.name == "topology_reads_more"], "it is an input all the same"


@pytest.mark.scenario("S-RUN-3", "S-RUN-9")
@pytest.mark.parametrize(
    ("change", "name", "state", "says"),
    [
        (topics(topic("words", retention_ms=str(HOUR_MS))), "retention", Grade.FAIL, "kept for 1 h, the objective is 72 h"),
        (unit(retention_objective_ms=None), "retention", Grade.WARN, "kept for ever; no objective"),
        (topics(topic("words", retention_bytes="5")), "retention", Grade.WARN, "words may lose records sooner"),
        (topics(topic("words", retention_bytes="5", cleanup_policy="compact")), "retention", Grade.OK, "for ever"),
        (topics(without="words"), "retention", Grade.FAIL, "do not exist"),
        (nobody, "offsets", Grade.WARN, "no group app"),
        (committed(), "offsets", Grade.WARN, "no offset is committed on words"),
        (committed(5, 5), "offsets", Grade.WARN, "no offset is committed on words 2"),
        (committed(5, 11, 5), "offsets", Grade.FAIL, "outside the log: words 1"),
        (topics(topic("words", cleanup_policy="compact")), "topic_design", Grade.WARN, "words is compacted"),
        (unit(schema=None), "schema", Grade.UNKNOWN, "nothing says"),
        (unit(is_deterministic=None), "determinism", Grade.UNKNOWN, "nothing says"),
        (unit(is_deterministic=False), "determinism", Grade.WARN, "another output"),
        (unit(outputs={"o": Output()}), "output_idempotence", Grade.UNKNOWN, "on o"),
        (unit(outputs={"o": Output(Behaviour.APPEND_ONLY)}), "output_idempotence", Grade.WARN, "holds records twice"),
        (unit(outputs={}), "output_idempotence", Grade.OK, "no outputs"),
    ],
)  # fmt: skip
def test_each_clause_says_what_it_found(change: Change, name: str, state: Grade, says: str) -> None:
    found = {c.name: c for c in make_contract(*change(TOLD, KNOWN))}
    assert found[name].state is state
    assert says in found[name].told


@pytest.mark.scenario("S-RUN-9")
def test_its_version_is_that_of_what_is_declared_and_not_of_what_is_found() -> None:
    known, unknown = look_at_contract(TOLD, KNOWN), look_at_contract(TOLD, None)
    assert known.version == unknown.version == version_of(replace(TOLD, name="another", group="g"))
    changed = [
        replace(TOLD, schema="another"),
        replace(TOLD, is_deterministic=False),
        replace(TOLD, retention_objective_ms=1),
        replace(TOLD, inputs=("more", *TOLD.inputs)),
        replace(TOLD, outputs={"o": Output(Behaviour.APPEND_ONLY)}),
    ]
    assert len({known.version, *map(version_of, changed)}) == 6
    assert [c.state for c in unknown.clauses[:3]] == [Grade.UNKNOWN] * 3
    assert [c.state for c in unknown.clauses[3:]] == [Grade.OK] * 3


def test_what_a_plan_keeps_of_it_has_a_bound() -> None:
    many = replace(TOLD, outputs={f"output-{number}": Output() for number in range(1_000)})
    (told,) = (c.told for c in make_contract(many, KNOWN) if c.name is ClauseName.OUTPUT_IDEMPOTENCE)
    assert told.endswith("output-4 and 995 more")

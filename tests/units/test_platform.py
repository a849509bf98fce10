"""Is a platform ready, and is one cluster enough: the rules, one row per finding."""

from dataclasses import replace

import pytest

from recoveryd.units.internal_topics import InternalTopics
from recoveryd.units.isolation import Isolation, IsolationFacts, advise
from recoveryd.units.platform import NEEDED_APIS, REASSIGN, PlatformSeen, Signal, judge_platform
from tests.units.test_lint import HOUR_MS, WELL, WORDS, topic

UNIT = replace(WORDS, schema="avro, backward compatible")
CONFIGS = {"authorizer.class.name": "A", "auto.create.topics.enable": "false", "replica.selector.class": "R"}
GOOD = PlatformSeen(
    apis=frozenset({*NEEDED_APIS, REASSIGN}),
    brokers={1: "a", 2: "b"},
    broker_configs=CONFIGS,
    client_rack="a",
    units={"words": (UNIT, WELL)},
    topic_leaders={"words": 2},
    watched=("words",),
    daemon="a daemon shows 10 series",
)
ROWS = ("compatibility", "replay_boundary", "cost", "elasticity", "governance", "migration_risk", "observability")


def with_unit(**changes: object) -> PlatformSeen:
    return replace(GOOD, units={"words": (replace(UNIT, **changes), WELL)})  # type: ignore[arg-type]


def with_input(**configs: str) -> PlatformSeen:
    facts = replace(WELL, topics={**WELL.topics, "words": topic("words", **configs)})
    return replace(GOOD, units={"words": (UNIT, facts)})


def test_all_seven_are_strong_where_all_is_well() -> None:
    assert [(row.name, row.signal) for row in judge_platform(GOOD)] == [(name, Signal.STRONG) for name in ROWS]


@pytest.mark.scenario("S-RUN-24")
@pytest.mark.parametrize(
    ("seen", "row", "signal", "told"),
    [
        (replace(GOOD, apis=frozenset(NEEDED_APIS) - {47} | {REASSIGN}), "compatibility", "weak", "deleting commits"),
        (replace(GOOD, apis=None), "compatibility", "unknown", "did not say"),
        (with_unit(retention_objective_ms=None), "replay_boundary", "weak", "no retention_objective"),
        (with_input(retention_ms=str(HOUR_MS)), "replay_boundary", "weak", "kept shorter"),
        (with_input(retention_ms=str(99 * HOUR_MS), retention_bytes="9"), "replay_boundary", "weak", "by size"),
        (replace(GOOD, units={"words": (UNIT, None)}), "replay_boundary", "unknown", "not looked at: words"),
        (replace(GOOD, units={}), "replay_boundary", "unknown", "no units"),
        (replace(GOOD, client_rack=None), "cost", "weak", "client.rack"),
        (replace(GOOD, broker_configs=None), "cost", "unknown", "may not be read"),
        (replace(GOOD, brokers={1: None, 2: None}), "cost", "unknown", "broker.rack"),
        (replace(GOOD, brokers={1: "a"}), "elasticity", "weak", "one broker"),
        (replace(GOOD, topic_leaders={"words": 1}), "elasticity", "weak", "1 of 2 brokers"),
        (replace(GOOD, topic_leaders={}), "elasticity", "unknown", "no input"),
        (with_unit(owner=None), "governance", "weak", "no owner"),
        (replace(GOOD, broker_configs={}), "governance", "weak", "no authorizer"),
        (replace(GOOD, broker_configs=None), "governance", "unknown", "may not be read"),
        (with_unit(schema=None), "migration_risk", "weak", "schema"),
        (with_input(message_timestamp_type="LogAppendTime"), "migration_risk", "weak", "LogAppendTime"),
        (
            replace(GOOD, units={"words": (UNIT, replace(WELL, internal=InternalTopics((), (("x", "?"),))))}),
            "migration_risk", "weak", "whose x is",
        ),
        (replace(GOOD, watched=()), "observability", "weak", "watches nothing"),
        (replace(GOOD, daemon=None), "observability", "unknown", "no daemon"),
    ],
)  # fmt: skip
def test_one_thing_that_is_missing_changes_its_row(seen: PlatformSeen, row: str, signal: str, told: str) -> None:
    rows = {each.name: each for each in judge_platform(seen)}
    assert tuple(rows) == ROWS
    assert (rows[row].signal.value, told in rows[row].evidence) == (signal, True), rows[row]


ALIKE = IsolationFacts(
    windows_alike=True, budgets_alike=True, replay_volume=0.5, is_sensitive=False, has_one_owner=True
)


@pytest.mark.scenario("S-RUN-29")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"windows_alike": False}, "recovery windows"),
        ({"budgets_alike": False}, "failure budgets"),
        ({"replay_volume": 1.5}, "1.5 times"),
        ({"is_sensitive": True}, "sensitive"),
        ({"has_one_owner": False}, "several teams"),
    ],
)
def test_the_advice_flips_when_one_of_five_facts_does(change: dict[str, object], why: str) -> None:
    assert advise(ALIKE).advice is Isolation.SHARED
    flipped = advise(replace(ALIKE, **change))  # type: ignore[arg-type]
    assert flipped.advice is Isolation.DEDICATED
    assert [why in reason for reason in flipped.reasons] == [True]

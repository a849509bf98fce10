"""Whether the state of a past moment can be had again, and the commands that do it."""

import shlex
from dataclasses import replace

import pytest
import typer

from recoveryd.cli.app import app
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.facts import PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.internal_topics import InternalTopics
from recoveryd.units.model import Unit, UnitKind
from recoveryd.units.past_state import (
    ChangelogLook,
    PastState,
    PastStateAnswer,
    SavedMoment,
    changelogs_of,
    judge_past_state,
)
from recoveryd.units.topology import Node, NodeKind, SubTopology, Topology
from tests.docs.test_commands import parse
from tests.units.test_topology import topology

AT_MS, MOMENT = 1_700_000_000_000, "2023-11-14T22:13:20.000Z"
CHANGELOG = "app-counts-changelog"
WORDS = Unit("words", UnitKind.STREAMS, "main", "app", ("words",), topology=topology("word-count"))
WHOLE = ChangelogLook(CHANGELOG, 0, 0, 50, 50)
CONFIGS = {CHANGELOG: {"cleanup.policy": "compact,delete", "retention.ms": None, "retention.bytes": None}}


def topic(name: str, start: int = 0, **configs: str) -> UnitTopic:
    ends = {0: PartitionEnds(0, 90), 1: PartitionEnds(start, 90)}
    return UnitTopic(name, f"id-{name}", ends, 1, {key.replace("_", "."): value for key, value in configs.items()})


FACTS = UnitFacts(0, {name: topic(name) for name in ("words", CHANGELOG)}, internal=InternalTopics((CHANGELOG,)))


def judged(
    unit: Unit = WORDS, facts: UnitFacts = FACTS, looks: tuple[ChangelogLook, ...] = (WHOLE,), **cuts: int
) -> PastStateAnswer:
    saved = {name: SavedMoment(at_ms) for name, at_ms in cuts.items()}
    return checked(judge_past_state(unit, AT_MS, facts, looks, saved, CONFIGS, "app-then"))


def checked(found: PastStateAnswer | Refused) -> PastStateAnswer:
    """With commands that the command line takes."""
    assert isinstance(found, PastStateAnswer), found
    for command in found.commands:
        tool, *words = shlex.split(command)
        if tool == "recoveryctl":
            parse(typer.main.get_command(app), words)
    return found


def test_changelogs_that_are_whole_are_copied_made_as_they_are_and_only_then_begun_with() -> None:
    found = judged()
    assert (found.verdict, found.why) == (
        PastState.CHANGELOG, (f"1 changelogs hold every record from before {MOMENT}",),
    )  # fmt: skip
    assert found.commands == (
        (
            f"recoveryctl replay --source {CHANGELOG} --from earliest --to {MOMENT} --target app-then-counts-changelog "
            f'--create --reason "the state of words at {MOMENT}" --yes --wait'
        ),
        (
            "kafka-configs.sh --bootstrap-server BROKERS --alter --entity-type topics --entity-name "
            "app-then-counts-changelog --add-config 'cleanup.policy=[compact,delete]' "
            "--delete-config retention.ms,retention.bytes"
        ),
        f'recoveryctl reset --group app-then --to {MOMENT} --topic words --reason "goes on where its state ends" --wait',
    )


def test_the_commands_of_a_unit_of_another_cluster_name_it() -> None:
    copy, _, begin = judged(replace(WORDS, cluster="eu")).commands
    assert copy.startswith("recoveryctl replay --source-cluster eu --target-cluster eu --source ")
    assert begin.startswith("recoveryctl reset --cluster eu --group ")
    [rebuild] = judged(replace(WORDS, cluster="eu"), looks=(replace(WHOLE, log_start=5),)).commands
    assert rebuild.startswith("recoveryctl replay --source-cluster eu --target-cluster eu --source words ")
    assert rebuild.endswith(" --yes --wait")


def test_it_is_refused_where_it_is_not_certain_what_its_state_is_unless_a_savepoint_has_it() -> None:
    facts = replace(FACTS, internal=InternalTopics((CHANGELOG,), (("app-sums-changelog", "somebody chose its name"),)))
    found = judge_past_state(WORDS, AT_MS, facts, (), {}, {}, "app-then")
    assert isinstance(found, Refused)
    assert (found.code, "app-sums-changelog may hold state of words" in found.message) == (Code.AMBIGUOUS_TOPICS, True)
    assert judged(facts=facts, cut=AT_MS).verdict is PastState.SAVEPOINT


@pytest.mark.parametrize(
    ("unit", "facts", "look", "why"),
    [
        (WORDS, FACTS, replace(WHOLE, log_start=5), "begins at 5: what was written before is gone"),
        (WORDS, FACTS, replace(WHOLE, records=None), "holds too much to be looked through"),
        (WORDS, FACTS, replace(WHOLE, records=49), "1 of 50 offsets hold no record"),
        (WORDS, FACTS, replace(WHOLE, late=3), "3 older records lie behind offset 50"),
        (WORDS, replace(FACTS, internal=InternalTopics()), None, "words has no changelogs that are certainly its own"),
        (WORDS, replace(FACTS, internal=InternalTopics()), None, "the store counts has no changelog"),
        (WORDS, FACTS, None, f"{CHANGELOG} does not exist, or could not be looked at"),
        (
            replace(WORDS, internal_topics=(CHANGELOG, "app-more-changelog")),
            FACTS,
            WHOLE,
            "app-more-changelog does not exist, or could not be looked at",
        ),
    ],
)
def test_what_is_missing_leaves_the_inputs_only(
    unit: Unit, facts: UnitFacts, look: ChangelogLook | None, why: str
) -> None:
    found = judged(unit, facts, () if look is None else (look,))
    assert found.verdict is PastState.STATE_NOT_RECOVERABLE
    assert any(why in each for each in found.why), found.why
    assert [command.split()[3] for command in found.commands] == ["words"]


@pytest.mark.parametrize(
    ("of_input", "why"),
    [
        (topic("words", start=7), "the input words begins at 7 in partition 1: what came before is gone"),
        (topic("words", cleanup_policy="compact"), "the input words is compacted: old values of a key are gone"),
        (None, "the input words does not exist"),
    ],
)
def test_what_the_inputs_lack_is_told_with_the_commands_that_process_them(of_input: UnitTopic | None, why: str) -> None:
    topics = {**FACTS.topics, "words": of_input} if of_input is not None else {CHANGELOG: FACTS.topics[CHANGELOG]}
    found = judged(facts=replace(FACTS, topics=topics), looks=(replace(WHOLE, log_start=5),))
    assert why in found.why
    assert not any("the input" in each for each in judged(looks=(replace(WHOLE, log_start=5),)).why)


def test_what_cannot_be_seen_is_told_beside_the_commands() -> None:
    facts = replace(FACTS, problems=("share groups are not listed",))
    found = judged(replace(WORDS, topology=None), facts, (replace(WHOLE, late=None),))
    assert found.verdict is PastState.CHANGELOG
    assert [part in why for part, why in zip(
        ("hold every record", "too much to be looked through behind offset 50", "which stores words has", "share groups"),
        found.why, strict=True,
    )] == [True] * 4  # fmt: skip


@pytest.mark.parametrize(
    ("of_input", "why"),
    [
        (topic("words"), ""),
        (topic("words", cleanup_policy="compact"), "is compacted: old values of a key are gone"),
        (topic("words", start=7), "begins at 7 in partition 1"),
    ],
)
def test_a_table_that_streams_reads_from_its_input_again_needs_the_whole_of_it(of_input: UnitTopic, why: str) -> None:
    node = Node("table", NodeKind.PROCESSOR, stores=("counts", "words-STATE-STORE-0000000000"))
    unit = replace(WORDS, topology=Topology((SubTopology(0, False, (node,)),)))
    found = judged(unit, replace(FACTS, topics={**FACTS.topics, "words": of_input}))
    assert found.verdict is (PastState.STATE_NOT_RECOVERABLE if why else PastState.CHANGELOG)
    assert why in found.why[0]


def test_a_changelog_that_only_the_config_names_is_one_of_its_own() -> None:
    unit = replace(WORDS, internal_topics=("app-more-changelog", "app-x-repartition"))
    assert changelogs_of(unit, FACTS) == (CHANGELOG, "app-more-changelog")


@pytest.mark.parametrize("names", [("cut",), ("cut", "better"), ("better", "cut")])
def test_a_savepoint_of_which_it_is_not_known_that_it_is_of_one_moment_says_so(names: tuple[str, ...]) -> None:
    doubt = "the application ran and is not known to be exactly once"
    cuts = {name: SavedMoment(AT_MS, doubt if name == "cut" else "") for name in names}
    found = checked(judge_past_state(WORDS, AT_MS, FACTS, (), cuts, CONFIGS, "app-then"))
    assert found.verdict is PastState.SAVEPOINT
    if "better" in names:
        assert found.why == ("the savepoint better is of this moment",)
    else:
        assert found.why == ("the savepoint cut was taken at this moment", doubt)

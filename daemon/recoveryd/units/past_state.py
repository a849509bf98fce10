"""Can the state that an application had at a past moment be had again? From a savepoint, or from changelogs of which
nothing is gone up to that moment; else only by processing the inputs again up to it.

The moment is one of the records' own times: of each changelog, the copy ends at its first record that new. Where an
older one lies behind that, the copy would lack it, so it is looked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.times import format_time_ms
from recoveryd.units.facts import UnitFacts
from recoveryd.units.internal_topics import changelog_of, is_changelog
from recoveryd.units.kafka_tools import alter_configs
from recoveryd.units.model import Unit


class PastState(StrEnum):
    SAVEPOINT = "savepoint"
    CHANGELOG = "changelog"
    STATE_NOT_RECOVERABLE = "state_not_recoverable"


@dataclass(frozen=True, slots=True)
class ChangelogLook:
    """[`log_start`, `until`) is what is left of a partition from before the moment, and holds `records`; `late` ones
    lie behind `until` and are older than the moment. None = too many to be counted.
    """

    topic: str
    partition: int
    log_start: int
    until: int
    records: int | None
    late: int | None = 0


@dataclass(frozen=True, slots=True)
class SavedMoment:
    """When a savepoint was cut. `doubt`: why its offsets and state may not be of one moment; empty where they are."""

    at_ms: int
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class PastStateAnswer:
    """`commands` carry out the way that is left, in their order."""

    verdict: PastState
    why: tuple[str, ...]
    commands: tuple[str, ...]


def changelogs_of(unit: Unit, facts: UnitFacts) -> tuple[str, ...]:
    """Those that are certainly its own, also one that only its config names."""
    known = (*facts.internal.certain, *(unit.internal_topics or ()))
    return tuple(sorted({topic for topic in known if is_changelog(topic)}))


def judge_past_state(
    unit: Unit,
    at_ms: int,
    facts: UnitFacts,
    looks: Sequence[ChangelogLook],
    savepoints: Mapping[str, SavedMoment],
    configs: Mapping[str, Mapping[str, str | None]],
    new_id: str,
) -> PastStateAnswer | Refused:
    """`savepoints`: those of the unit, by name. `configs`: what a copy of each changelog is to get
    once it is filled. `new_id`: of the application that gets the state. A refusal where nobody can tell what its state
    is.
    """
    moment = format_time_ms(at_ms)
    then = sorted((saved.doubt, name) for name, saved in savepoints.items() if saved.at_ms == at_ms)
    if then:
        return _from_savepoint(unit, moment, *then[0])
    if facts.internal.ambiguous:
        name, reason = facts.internal.ambiguous[0]
        message = f"{name} may hold state of {unit.name}, and what is put together without it would be none: {reason}"
        return Refused(Code.AMBIGUOUS_TOPICS, message)
    changelogs = changelogs_of(unit, facts)
    if gone := (*_missing(unit, facts, changelogs, looks), *_gone(looks)):
        why = (*gone, *_short_inputs(unit, facts), *facts.problems)
        return PastStateAnswer(PastState.STATE_NOT_RECOVERABLE, why, tuple(_from_inputs(unit, moment)))
    told = f"{len(changelogs)} changelogs hold every record from before {moment}"
    why = (told, *_unseen(unit, looks), *facts.problems)
    commands = tuple(_from_changelogs(unit, changelogs, configs, moment, new_id))
    return PastStateAnswer(PastState.CHANGELOG, why, commands)


def _from_savepoint(unit: Unit, moment: str, doubt: str, name: str) -> PastStateAnswer:
    why = (
        (f"the savepoint {name} was taken at this moment", doubt)
        if doubt
        else (f"the savepoint {name} is of this moment",)
    )
    restore = f'recoveryctl restore-savepoint {name} --to-unit {unit.name} --reason "its state of {moment}"'
    return PastStateAnswer(PastState.SAVEPOINT, why, (restore,))


def _missing(unit: Unit, facts: UnitFacts, changelogs: Sequence[str], looks: Iterable[ChangelogLook]) -> Iterator[str]:
    """State that is in no changelog that was looked at."""
    if not changelogs:
        yield f"{unit.name} has no changelogs that are certainly its own"
    seen = {look.topic for look in looks}
    for topic in changelogs:
        if topic not in seen:
            yield f"{topic} does not exist, or could not be looked at"
    for store in sorted(unit.topology.stores) if unit.topology is not None else ():
        if changelog_of(unit.group, store) in changelogs:
            continue
        table_of = next((name for name in unit.inputs if store.startswith(f"{name}-STATE-STORE-")), None)
        if table_of is None:
            yield f"the store {store} has no changelog: it is rebuilt from an input, or is lost"
        elif found := tuple(_short(facts, table_of)):
            yield f"the table {store} is read from its input again: {found[0]}"


def _gone(looks: Sequence[ChangelogLook]) -> Iterator[str]:
    for look in looks:
        where = f"{look.topic} {look.partition}"
        if look.log_start:
            yield f"{where} begins at {look.log_start:,}: what was written before is gone"
        elif look.records is None:
            yield f"{where} holds too much to be looked through"
        elif look.records < look.until:
            left = look.until - look.records
            yield f"{where}: {left:,} of {look.until:,} offsets hold no record, compacted away or of a transaction"
        elif look.late:
            yield f"{where}: {look.late:,} older records lie behind offset {look.until:,}, the first one of that moment"


def _unseen(unit: Unit, looks: Iterable[ChangelogLook]) -> Iterator[str]:
    """What may be missing all the same."""
    for look in looks:
        if look.late is None:
            yield (
                f"{look.topic} {look.partition} holds too much to be looked through behind offset {look.until:,}: "
                "older records may lie there, and would be left out"
            )
    if unit.topology is None:
        yield f"nothing says which stores {unit.name} has: the state of one without a changelog is not in it"


def _short_inputs(unit: Unit, facts: UnitFacts) -> Iterator[str]:
    for name in unit.inputs:
        yield from _short(facts, name)


def _short(facts: UnitFacts, name: str) -> Iterator[str]:
    """Why an input does not hold all that was processed."""
    topic = facts.topics.get(name)
    if topic is None:
        yield f"the input {name} does not exist"
        return
    if topic.is_compacted:
        yield f"the input {name} is compacted: old values of a key are gone"
    begun = [(partition, ends.log_start) for partition, ends in sorted(topic.ends.items()) if ends.log_start]
    if begun:
        (partition, start), more = begun[0], len(begun) - 1
        others = f", and {more} more do not begin at 0" if more else ""
        yield f"the input {name} begins at {start:,} in partition {partition}{others}: what came before is gone"


def _from_changelogs(
    unit: Unit, changelogs: Iterable[str], configs: Mapping[str, Mapping[str, str | None]], moment: str, new_id: str
) -> Iterator[str]:
    """The copies are whole, and as the application needs them, before its offsets say that it may begin."""
    targets = {topic: f"{new_id}-{topic.removeprefix(f'{unit.group}-')}" for topic in changelogs}
    for topic, target in targets.items():
        yield _copy(unit, topic, moment, target, f"the state of {unit.name} at {moment}")
    for topic, target in targets.items():
        yield alter_configs("topics", target, configs[topic])
    named = " ".join(f"--topic {topic}" for topic in unit.inputs)
    cluster = _at(unit, "--cluster")
    yield (
        f"recoveryctl reset{cluster} --group {new_id} --to {moment} {named} "
        '--reason "goes on where its state ends" --wait'
    )


def _from_inputs(unit: Unit, moment: str) -> Iterator[str]:
    """The application, with an id of its own and empty state, reads the copies: where they end, its state is that of
    then.
    """
    for topic in unit.inputs:
        yield _copy(
            unit, topic, moment, f"{topic}.until-{moment[:10]}", f"rebuild the state of {unit.name} at {moment}"
        )


def _copy(unit: Unit, source: str, moment: str, target: str, reason: str) -> str:
    """The command waits until the copy is proved: what comes next counts on it."""
    clusters = _at(unit, "--source-cluster", "--target-cluster")
    return (
        f"recoveryctl replay{clusters} --source {source} --from earliest --to {moment} --target {target} --create "
        f'--reason "{reason}" --yes --wait'
    )


def _at(unit: Unit, *flags: str) -> str:
    return "" if unit.cluster == "main" else "".join(f" {flag} {unit.cluster}" for flag in flags)

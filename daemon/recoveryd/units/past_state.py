"""Can the state that an application had at a past moment be had again? From a savepoint, or from changelogs of which
nothing is gone up to that moment; else only by processing the inputs again up to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from recoveryd.kernel.times import format_time_ms
from recoveryd.units.model import Unit


class PastState(StrEnum):
    SAVEPOINT = "savepoint"
    CHANGELOG = "changelog"
    STATE_NOT_RECOVERABLE = "state_not_recoverable"


@dataclass(frozen=True, slots=True)
class ChangelogLook:
    """[`log_start`, `until`) is what is left of a partition from before the moment, and holds `records`; None = too
    many to be counted.
    """

    topic: str
    partition: int
    log_start: int
    until: int
    records: int | None


@dataclass(frozen=True, slots=True)
class PastStateAnswer:
    """`commands` carry out the way that is left, in their order."""

    verdict: PastState
    why: tuple[str, ...]
    commands: tuple[str, ...]


def judge_past_state(
    unit: Unit,
    at_ms: int,
    looks: Sequence[ChangelogLook],
    savepoints: Mapping[str, int],
    new_id: str,
) -> PastStateAnswer:
    """`savepoints`: those of the unit, by name when they were cut. `new_id`: of the application that gets the state."""
    moment = format_time_ms(at_ms)
    exact = next((name for name, cut_ms in savepoints.items() if cut_ms == at_ms), None)
    if exact is not None:
        told = f"the savepoint {exact} is of this moment"
        restore = f'recoveryctl restore-savepoint {exact} --to-unit {unit.name} --reason "its state of {moment}"'
        return PastStateAnswer(PastState.SAVEPOINT, (told,), (restore,))
    gone = tuple(_gone(looks)) if looks else (f"{unit.name} has no changelogs that are certainly its own",)
    if not gone:
        told = f"{len({look.topic for look in looks})} changelogs hold every record from before {moment}"
        return PastStateAnswer(PastState.CHANGELOG, (told,), tuple(_from_changelogs(unit, looks, moment, new_id)))
    return PastStateAnswer(PastState.STATE_NOT_RECOVERABLE, gone, tuple(_from_inputs(unit, moment)))


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


def _from_changelogs(unit: Unit, looks: Sequence[ChangelogLook], moment: str, new_id: str) -> Iterator[str]:
    for topic in dict.fromkeys(look.topic for look in looks):
        target = f"{new_id}-{topic.removeprefix(f'{unit.group}-')}"
        yield _copy(topic, moment, target, f"the state of {unit.name} at {moment}")
    named = " ".join(f"--topic {topic}" for topic in unit.inputs)
    yield f'recoveryctl reset --group {new_id} --to {moment} {named} --reason "goes on where its state ends"'


def _from_inputs(unit: Unit, moment: str) -> Iterator[str]:
    """The application, with an id of its own and empty state, reads the copies: where they end, its state is that of
    then.
    """
    for topic in unit.inputs:
        yield _copy(topic, moment, f"{topic}.until-{moment[:10]}", f"rebuild the state of {unit.name} at {moment}")


def _copy(source: str, moment: str, target: str, reason: str) -> str:
    return f'recoveryctl replay --source {source} --from earliest --to {moment} --target {target} --create --reason "{reason}" --yes'

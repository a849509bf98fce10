"""What has to hold before a version can be exchanged for another one that runs beside it.

The exchange rests on positions in the inputs alone, so nothing may be under way between an input and an output but in
the memory of a running application: a topic in between would hold records of which nobody can tell to which inputs they
belong.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.facts import UnitFacts
from recoveryd.units.internal_topics import is_changelog
from recoveryd.units.model import Unit
from recoveryd.workflows.kinds.reset import refuse_group, unit_of
from recoveryd.workflows.kinds.upgrade.names import COMPARE, DELETE_TAIL, START_BESIDE
from recoveryd.workflows.kinds.upgrade.online_back import may_have_read_tail
from recoveryd.workflows.machine.kind import Knows
from recoveryd.workflows.model.colliding import refuse_collision
from recoveryd.workflows.model.facts import Found
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.size import refuse_copy, refuse_sizes
from recoveryd.workflows.model.spec import Cutover, ReadyWhen, UpgradeMode, UpgradeSpec

READY_WHEN: Final = ReadyWhen(lag_ms=10_000, hold_ms=60_000)
_TAIL_NEEDED: Final = "Name a unit of its group that reads a topic for each input, or say cutover: at_least_once."
_OFFLINE: Final = "Say mode: offline, where the old version is stopped first."


def complete_online(spec: UpgradeSpec, knows: Knows) -> UpgradeSpec | Refused:
    """With what is left out, or why the units do not fit together."""
    problem = problem_of_roles(spec, knows.params)
    if problem is not None:
        return problem
    return replace(spec, ready=spec.ready or READY_WHEN, anew_after=_read_in_part(spec, knows.workflows))


def _read_in_part(spec: UpgradeSpec, workflows: Workflows) -> str | None:
    """The last upgrade to this group, if it ended between the start on the tail and the new offsets: what the group
    keeps is ahead of them.
    """
    last = None
    for each in sorted(workflows, key=lambda w: w.place):
        to = each.spec
        if isinstance(to, UpgradeSpec) and (to.cluster, to.to_group) == (spec.cluster, spec.to_group):
            begun = {step.name for step in each.steps if step.has_begun}
            if not {DELETE_TAIL, COMPARE}.isdisjoint(begun):
                last = None
            elif may_have_read_tail(each):
                last = each.id
            elif START_BESIDE in begun:
                last = None  # it was not refused, so it began anew if it had to
    return last


def _not_anew(spec: UpgradeSpec, found: Found) -> Refused | None:
    """Whether the new version still has what it made of a tail."""
    if spec.anew_after is None:
        return None
    group, facts = found.groups[1], found.units[spec.to_unit]
    own = (
        facts.topics.get(name) for name in (*facts.internal.certain, *(name for name, _ in facts.internal.ambiguous))
    )
    is_empty = not any(end.records_most for topic in own if topic is not None for end in topic.ends.values())
    if is_empty and all(look.committed is None or look.committed <= look.log_start for look in group.looks):
        return None
    message = f"{spec.anew_after} ended while {spec.to_group} read a tail, or may have read it, so its state is ahead of its offsets"
    hint = "Begin it anew: take away its state and its internal topics, and its offsets or set them to the start of its inputs."
    return Refused(Code.TARGET_NOT_EMPTY, message, hint)


def problem_of_roles(spec: UpgradeSpec, params: WorkflowParams) -> Refused | None:
    """Why the units do not fit together, as the config has them now. Of the two versions it is known that they are
    there.
    """
    old, new = params.units[spec.unit], params.units[spec.to_unit]
    if (old.cluster, old.consumer_group, new.consumer_group) != (spec.cluster, spec.group, spec.to_group):
        message = f"{old.name} or {new.name} has another cluster or group now than when the command was taken"
        return Refused(Code.STALE_PLAN, message)
    if not spec.is_other_id:
        message = f"{new.name} has the group of {old.name}, so the two cannot run side by side"
        return Refused(Code.INVALID_VALUE, message, "Give the new version an application id of its own.")
    if spec.staged_unit is None:
        message = f"staged_unit: it is not said how {new.name} runs beside {old.name}"
        return Refused(Code.MISSING_FIELD, message, "Name a unit of the same group that writes outputs of its own.")
    roles: list[Unit] = []
    for field, name in (("staged_unit", spec.staged_unit), ("tail_unit", spec.tail_unit)):
        unit = None if name is None else unit_of(name, params)
        if isinstance(unit, Refused):
            return replace(unit, message=unit.message.replace("unit:", f"{field}:", 1))
        roles += [] if unit is None else [unit]
    problems = (*_of_roles(old, new, roles), *_of_tail(spec, new, roles), *_of_texts((old, new, *roles)))
    return problems[0] if problems else None


def left_over(spec: UpgradeSpec) -> Refused | None:
    """Fields that mean nothing where the old version is stopped first."""
    if spec.mode is UpgradeMode.ONLINE:
        return None
    given = {
        "staged_unit": spec.staged_unit,
        "tail_unit": spec.tail_unit,
        "ready": spec.ready,
    }
    name = next((name for name, value in given.items() if value is not None), None)
    return None if name is None else Refused(Code.INVALID_VALUE, f"{name}: belongs to mode: online", "Leave it out.")


def _of_roles(old: Unit, new: Unit, roles: list[Unit]) -> Iterator[Refused]:
    written = {*old.outputs, *new.outputs}
    for unit in roles:
        if (unit.cluster, unit.consumer_group, unit.kind) != (new.cluster, new.consumer_group, new.kind):
            message = f"{unit.name} is not the same application as {new.name}: it has another cluster, group or kind"
            yield Refused(
                Code.INVALID_VALUE, message, "Give it the cluster, the group and the kind of the new version."
            )
        shared = sorted(written & set(unit.outputs))
        if shared:
            message = f"{unit.name} writes {shared[0]}, which readers of {old.name} or {new.name} would see"
            yield Refused(Code.INVALID_VALUE, message, "Give it outputs of its own.")
    strange = sorted(set(new.positioned_inputs) - set(old.positioned_inputs))
    if strange:
        message = f"{new.name} reads {strange[0]}, and {old.name} does not: it has no position there to take over"
        yield Refused(Code.INVALID_VALUE, message, "Let the new version read what the old one reads.")
    if roles[0].inputs != new.inputs:
        message = f"{roles[0].name} does not read what {new.name} reads, in the same order"
        yield Refused(Code.INVALID_VALUE, message, f"Give it the inputs {', '.join(new.inputs)}.")


def _of_tail(spec: UpgradeSpec, new: Unit, roles: list[Unit]) -> Iterator[Refused]:
    if spec.cutover is not Cutover.EXACT:
        if spec.tail_unit is not None:
            message = "tail_unit: belongs to cutover: exact"
            yield Refused(Code.INVALID_VALUE, message, "Leave it out.")
        return
    if spec.tail_unit is None:
        if new.keeps_state:
            message = (
                f"tail_unit: {new.name} keeps state, so it has to process what lies between the two stops without "
                "publishing it"
            )
            yield Refused(Code.MISSING_FIELD, message, _TAIL_NEEDED)
        return
    tail = roles[-1]
    read, instead = new.positioned_inputs, tail.positioned_inputs
    if len(instead) != len(read) or set(instead) & set(new.inputs):
        message = f"{tail.name} needs one input of its own for each of {', '.join(read)}, in the same order"
        yield Refused(Code.INVALID_VALUE, message, "Name topics that only this upgrade uses.")


def _of_texts(units: Iterable[Unit]) -> Iterator[Refused]:
    for unit in units:
        through = sorted({*unit.intermediate, *(unit.topology.through if unit.topology is not None else ())})
        if through:
            yield _under_way(unit.name, through[0])


def _under_way(unit: str, topic: str) -> Refused:
    message = f"{unit} writes and reads {topic}: of what is under way there nobody can tell which input it belongs to"
    return Refused(Code.VERSIONS_INCOMPATIBLE, message, _OFFLINE)


def problem_of_state(spec: UpgradeSpec, unit: str, facts: UnitFacts) -> Refused | None:
    """Whoever has changelogs keeps state, whatever the config says, and would pass over what lies between the two
    stops.
    """
    if spec.cutover is not Cutover.EXACT or spec.tail_unit is not None:
        return None
    names = (*facts.internal.certain, *(name for name, _ in facts.internal.ambiguous))
    kept = next((name for name in names if is_changelog(name)), None)
    if kept is None:
        return None
    message = (
        f"{unit} keeps state in {kept}, so it has to process what lies between the two stops without publishing it; "
        "no tail_unit is named"
    )
    return Refused(Code.VERSIONS_INCOMPATIBLE, message, _TAIL_NEEDED)


def problem_online(spec: UpgradeSpec, found: Found, tails: dict[str, str]) -> Refused | None:
    """Why what the cluster says is in the way. `tails`: by input the topic of its tail."""
    old, new = found.groups
    if old.missing:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {', '.join(old.missing)}")
    if old.group is None:
        return Refused(Code.NO_SUCH_GROUP, f"the cluster has no group {spec.group}, so there is nothing to take over")
    for name, facts in found.units.items():
        between = between_of(facts)
        if between is not None:
            return _under_way(name, between)
    refused = (
        _taken_over(spec, found)
        or _of_tails(spec, found, tails)
        or _not_anew(spec, found)
        or problem_of_state(spec, spec.to_unit, found.units[spec.to_unit])
    )
    if refused is not None:
        return refused
    refused = refuse_group(spec.group, old.group) or refuse_group(spec.to_group, new.group)
    return refused or refuse_sizes(((spec.group, old), (spec.to_group, new)))


def _taken_over(spec: UpgradeSpec, found: Found) -> Refused | None:
    """Whether the new version runs alone. Then it would get a second one beside it in its own group, which takes inputs
    from it and writes where nobody reads.
    """
    old, new = (each.group for each in found.groups)
    if (old is not None and old.members) or new is None or not new.members:
        return None
    message = f"nobody runs as {spec.group}, and {spec.to_group} has members: {spec.to_unit} has taken over already, or is still up from an earlier try"
    return Refused(Code.NOTHING_TO_DO, message, "Start the old version, or roll back the upgrade by which it was left.")


def _of_tails(spec: UpgradeSpec, found: Found, tails: dict[str, str]) -> Refused | None:
    """One that an earlier upgrade left is taken away by its rollback, which looks first whether it was read."""
    hint = "Delete it: it is made when needed."
    if spec.anew_after is not None:
        hint = f"Roll back {spec.anew_after}, which made it, or begin {spec.to_unit} anew."
    for source, tail in tails.items():
        wanted = found.topics.get(source)
        uncopied = refuse_copy(tail, () if wanted is None else range(wanted.form.partitions))
        if uncopied is not None:
            return uncopied
        there = found.topics.get(tail)
        if there is None:
            continue
        if there.records_most:
            return Refused(Code.TARGET_NOT_EMPTY, f"{tail} has records already", hint)
        return Refused(Code.INVALID_VALUE, f"tail_unit: {tail} exists already", hint)
    return refuse_collision(tails.values(), found.names)


def between_of(facts: UnitFacts) -> str | None:
    """A topic of the application itself that is no changelog, or may be none."""
    names = (*facts.internal.certain, *(name for name, _ in facts.internal.ambiguous))
    return next((name for name in names if not is_changelog(name)), None)

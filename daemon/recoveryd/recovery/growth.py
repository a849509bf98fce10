"""Partitions that are added while a recovery runs.

Added to a source that is followed with all its partitions, they are copied from their first offset: the plan is
revised, the new partitions go to the lanes that have the fewest, and the next attempt copies them; lanes keep their
numbers, so their transactional ids stay. Until then, while the target has too few partitions, and where they are more
than one recovery can have, it is never caught up. Added to a source with a pinned range, they do not belong to it, and
a finding says so. Added to a target with `mapping: key_hash`, they end the copy, because the same key would lie in two
partitions from now on.
"""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.events import TopicSample
from recoveryd.recovery.attempts import lose_attempt
from recoveryd.recovery.case import Case
from recoveryd.recovery.ending import begin_end, late_why
from recoveryd.recovery.model import Finding, PartitionProgress, Plan, PlannedPartition, Recovery, Severity
from recoveryd.recovery.size import why_too_many_copied

BLOCKED, NOT_PART, ADDED = "source_grew_past_target", "source_grew", "source_grew_covered"
_LOOK_WAIT_MS = (
    120_000  # longer than a topic's partition count is taken as current, and than a broker is away that restarts
)


def follows_all(recovery: Recovery) -> bool:
    """Whether partitions that are added later belong to the recovery."""
    plan = recovery.plan
    return plan is not None and plan.is_following and recovery.spec.source.partitions is None


def uncovered(recovery: Recovery, sample: TopicSample | None) -> tuple[int, ...]:
    """Partitions of the source that its plan does not know."""
    plan = recovery.plan
    if plan is None or sample is None or sample.topic_id != plan.source.topic_id:
        return ()
    return tuple(range(plan.source.partitions, sample.partitions))


def keep_up(case: Case) -> None:
    """React to added partitions; call after each sample of the topics."""
    recovery, plan = case.recovery, case.recovery.plan
    if plan is None or not recovery.spec.copies or recovery.state not in {State.STARTING, State.RUNNING, State.PAUSED}:
        return
    target = case.draft.history((plan.target.cluster, plan.target.topic)).newest
    width = _target_width(plan, target)
    if recovery.spec.target.mapping == "key_hash" and width > plan.target.partitions:
        _refuse_wider_target(case, width)
        return
    source = case.source_history.newest
    new = uncovered(recovery, source)
    if not new or source is None:
        return
    if not follows_all(recovery):
        _note(case, Finding(NOT_PART, Severity.INFO, f"{_named(plan, new)}; not part of this range"))
    elif recovery.state is State.PAUSED:
        return  # added to the plan when it runs again
    elif recovery.spec.target.mapping == "same" and width <= new[-1]:
        why = f"{_named(plan, new)}; {plan.target.topic} has {width}: give it {new[-1] + 1}, and they are copied"
        _note(case, Finding(BLOCKED, Severity.WARN, why))
    elif why := why_too_many_copied(len(plan.partitions) + len(new), width):
        _note(case, Finding(BLOCKED, Severity.WARN, f"{_named(plan, new)}; {why}: follow them with another command"))
    else:
        _take_along(case, source, new, width)


def blocked_why(recovery: Recovery) -> str:
    """Why new partitions cannot be copied now, or ""."""
    findings = recovery.plan.findings if recovery.plan is not None else ()
    return next((f.message for f in findings if f.code == BLOCKED), "")


def left_out(case: Case) -> str | None:
    """What keeps a recovery that ends at zero lag from being complete: partitions that were added too late to be
    copied, or that nobody could look for them in time; "" = nothing. None while a sample that is newer than the end is
    awaited.
    """
    recovery, stop = case.recovery, case.recovery.stop
    if recovery.plan is None or stop is None or not follows_all(recovery):
        return ""
    sample, waited_ms = case.source_history.newest, case.now_ms - case.end_began_ms
    is_fresh = sample is not None and (sample.described_ms or sample.sampled_at_ms) > case.end_began_ms
    if not is_fresh and waited_ms < max(_LOOK_WAIT_MS, case.params.looks_ms):
        return None
    late = uncovered(recovery, sample)
    if not late and not is_fresh:
        topic = recovery.plan.source.topic
        return f"for {waited_ms / 1000:.0f} s nobody could look whether partitions were added to {topic} meanwhile"
    return late_why(late) if late else ""


def _target_width(plan: Plan, target: TopicSample | None) -> int:
    known = target is not None and plan.target.topic_id and target.topic_id == plan.target.topic_id
    return max(plan.target.partitions, target.partitions) if known and target is not None else plan.target.partitions


def _refuse_wider_target(case: Case, width: int) -> None:
    plan = case.plan
    found = f"{plan.target.topic} has {width} partitions now, planned were {plan.target.partitions}"
    why = f"{Code.TARGET_PARTITIONS.sentence} {found}: keys would be placed elsewhere from now on."
    begin_end(case, StopReason.TARGET_UNAVAILABLE, State.FAILED, why, code=Code.TARGET_PARTITIONS)


def _take_along(case: Case, source: TopicSample, new: tuple[int, ...], width: int) -> None:
    plan, progress = case.plan, case.recovery.progress
    planned = tuple(
        PlannedPartition(
            p, 0, None, high_watermark=source.high_watermark.get(p, 0), log_start=source.log_start.get(p, 0)
        )
        for p in new
    )
    lanes = [list(lane) for lane in plan.lanes] or [[]]
    for partition in new:
        min(lanes, key=len).append(partition)
    why = f"{_named(plan, new)}; copied from their first offset by the next attempt"
    kept = tuple(f for f in plan.findings if f.code != BLOCKED)
    revised = replace(
        plan,
        source=replace(plan.source, partitions=source.partitions),
        target=replace(plan.target, partitions=width),
        partitions=(*plan.partitions, *planned),
        lanes=tuple(tuple(lane) for lane in lanes),
        records_at_most=plan.records_at_most + sum(p.high_watermark for p in planned),
        findings=(*kept, Finding(ADDED, Severity.INFO, why)),
    )
    rows = tuple(PartitionProgress(p, 0, None) for p in new)
    case.revise(plan=revised, progress=replace(progress, partitions=(*progress.partitions, *rows)))
    case.notice("plan_revised", {"why": why, "partitions": list(new), "lanes": len(revised.lanes)})
    if not case.recovery.attempt.released:
        lose_attempt(case, why, counts=False)


def _note(case: Case, finding: Finding) -> None:
    plan = case.plan
    if finding in plan.findings:
        return
    findings = (*(f for f in plan.findings if f.code != finding.code), finding)
    case.revise(plan=replace(plan, findings=findings))
    case.notice("plan_noted", {"code": finding.code, "why": finding.message})


def _named(plan: Plan, new: tuple[int, ...]) -> str:
    which = f"partition {new[0]} was" if len(new) == 1 else f"partitions {new[0]} to {new[-1]} were"
    return f"{which} added to {plan.source.topic}, which had {plan.source.partitions}"

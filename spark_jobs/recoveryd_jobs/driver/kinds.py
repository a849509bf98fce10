"""The job kinds `replay` and `verification`: lanes and their verification as Spark jobs. Only descriptors pass through
the driver, never records.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from recoveryd_jobs.contract import JobSpec, Verification, decode, encode
from recoveryd_jobs.driver import task_slots
from recoveryd_jobs.errors import JobError, Superseded
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.verify.guest import Stopped
from recoveryd_jobs.verify.judge import ProofVerdict, differing, judge, report
from recoveryd_jobs.verify.match import SOURCE, TARGET
from recoveryd_jobs.verify.plan import (
    ProofPlan,
    ProofShare,
    is_apart,
    is_spilled,
    look_again,
    make_plan,
    share_out,
    share_rest,
)
from recoveryd_jobs.verify.shown import Pair, Shown
from recoveryd_jobs.verify.spill import report_spilled
from recoveryd_jobs.verify.tasks import look_closer, show_share, spill_share

# So many offsets of the source, copied to one partition in receipts of 25 records, leave a million rows on each side,
# 66 MB in all; copied to more partitions, as many times more, until each record has a row of its own.
_EACH_OFFSETS = 25_000_000
_SPREAD_MAX = 25
_SLOT_TASKS = 500  # each is a process of its own; and all are silent, as a proof that stands still


def run_lane_job(context: Any, spec: JobSpec, lane: int) -> LaneOutcome:
    """Run one lane as a Spark job of one task; returns when the lane ended. Spark starts a task again whose worker
    died.
    """
    found = context.parallelize([lane], 1).mapPartitions(partial(_lane_task, encode(spec))).collect()
    return LaneOutcome(*found[0])


def _lane_task(raw_spec: bytes, lanes: Any) -> Any:
    from pyspark import TaskContext  # noqa: PLC0415  (the import is slow, and the driver reports before it)

    spec, task = decode(JobSpec, raw_spec), TaskContext.get()
    again = task is not None and task.attemptNumber() > 0
    for number in lanes:
        lane = next(item for item in spec.lanes if item.lane == number)
        outcome = run_lane(spec, lane, again=again)
        yield outcome.lane, outcome.ended, outcome.error_code, outcome.error_message, outcome.positions


def run_verification(context: Any, spec: JobSpec, *, is_whole: bool) -> Verification | None:
    """Verify the copy. `is_whole`: every lane came to the end of its range, so every record must be in the target. None
    when told to stop before the end.

    There are at most as many tasks as slots, so that all run at once and each obeys directives. Raises JobError when
    there can be no verdict.
    """
    if spec.verify == "none":
        return Verification("skipped", 0, 0, "", why="verification was not asked for")
    plan = make_plan(spec, is_whole=is_whole)
    found = _verify(context, spec, plan)
    return None if found is None else replace(found, target_ends=plan.target_ends)


def _verify(context: Any, spec: JobSpec, plan: ProofPlan) -> Verification | None:
    slots = max(1, task_slots.count(context))  # never 0, because executors that were just lost are replaced
    shares = share_out(spec, plan, slots)
    if is_spilled(spec):
        spilled = _run(context, shares, partial(_spill_task, encode(spec), plan))
        if spilled is None:
            return None
        rest = look_again(spec, plan)
        reported = report_spilled(spilled, latest=spec.compare == "latest", notes=rest.notes)
        return replace(reported, uncopied=rest.uncopied)
    verdict = _judge(context, spec, plan, shares)
    if verdict is None:
        return None
    if not verdict.questions:
        return report(verdict, ())
    tasks, first = min(slots, len(verdict.questions)), len(shares) + 1  # after that of `share_rest`
    questions = [(first + n, first + tasks, first, verdict.questions[n::tasks]) for n in range(tasks)]
    found = _run(context, questions, partial(_look_task, encode(spec), plan))
    return None if found is None else report(verdict, found)


def _judge(context: Any, spec: JobSpec, plan: ProofPlan, shares: list[ProofShare]) -> ProofVerdict | None:
    """The verdict before the closer look, also on what was added to the target while it was read."""
    shown = _show(context, spec, plan, shares)
    if shown is None:
        return None
    rest = look_again(spec, plan)
    added = _show(context, spec, rest, share_rest(rest, len(shares)))
    if added is None:
        return None
    verdict = judge(spec, [*shown, *added], rest.notes)
    verdict.uncopied = rest.uncopied
    return verdict


def _show(context: Any, spec: JobSpec, plan: ProofPlan, shares: list[ProofShare]) -> list[Shown] | None:
    """What the tasks saw; None when one of them was told to leave. Where a pair is read by two tasks, its rows meet in
    a third one, and only those that differ come to the driver, which could not hold all.
    """
    if not shares:
        return []
    shown = context.parallelize(shares, len(shares)).mapPartitions(partial(_show_task, encode(spec), plan))
    if is_apart(spec):
        tasks = _meetings(plan, spec.target.partitions, len(shares))
        shown = shown.partitionBy(tasks, partial(_place_of, plan.width)).mapPartitions(_differing_task)
    odd, outcomes = Shown(), dict[int, Any]()
    for key, found in shown.collect():
        if isinstance(key, int):
            outcomes[key] = found
        else:
            odd.sources[key], odd.targets[key] = found
    seen = _outcomes([found for _, found in sorted(outcomes.items())])
    return None if seen is None else [*seen, odd]


def _meetings(plan: ProofPlan, targets: int, slots: int) -> int:
    """How many tasks rows have to meet in, so that each holds few. Those of a pair meet in one, so no more are of use
    than there are pairs.
    """
    offsets, pairs = sum(r.stop - r.start for r in plan.sources), len(plan.sources) * targets
    wanted = offsets * min(targets, _SPREAD_MAX) // _EACH_OFFSETS
    return max(slots, min(pairs, max(offsets // _EACH_OFFSETS, min(wanted, slots * _SLOT_TASKS))))


def _run(context: Any, items: list[Any], task: Any) -> list[Any] | None:
    """One task per item; None when one of them was told to leave. Tasks return errors as values, because Spark must not
    repeat them in vain.
    """
    if not items:
        return []
    return _outcomes(context.parallelize(items, len(items)).mapPartitions(task).collect())


def _outcomes(found: list[Any]) -> list[Any] | None:
    for result in found:
        if isinstance(result, JobError):
            raise result
    return None if any(result is None for result in found) else found


def _show_task(raw_spec: bytes, plan: ProofPlan, shares: Any) -> Any:
    """What each task saw under its number; where the rows are to go elsewhere, these before it as (pair, (side,
    rows)).
    """
    spec = decode(JobSpec, raw_spec)
    for share in shares:
        found = _outcome(partial(show_share, spec, plan, share))
        if is_apart(spec) and isinstance(found, Shown):
            yield from found.take_rows()
        yield share.task, found


def _place_of(width: int, key: int | Pair) -> int:
    """Where both sides of a pair meet, the same in every process; `width`: partitions of the target. Pairs of one
    source partition meet in many tasks.
    """
    return key if isinstance(key, int) else key[0] * width + key[1]


def _differing_task(items: Iterable[tuple[int | Pair, Any]]) -> Iterator[tuple[int | Pair, Any]]:
    sides: tuple[dict[Pair, bytearray], dict[Pair, bytearray]] = {}, {}
    for key, found in items:
        if isinstance(key, int):
            yield key, found
        else:
            side, rows = found
            sides[side].setdefault(key, bytearray()).extend(rows)
    for pair in sides[SOURCE].keys() | sides[TARGET].keys():
        odd = differing(*(rows.pop(pair, b"") for rows in sides))
        if any(odd):
            yield pair, odd


def _spill_task(raw_spec: bytes, plan: ProofPlan, shares: Any) -> Any:
    spec = decode(JobSpec, raw_spec)
    for share in shares:
        yield _outcome(partial(spill_share, spec, plan, share))


def _look_task(raw_spec: bytes, plan: ProofPlan, items: Any) -> Any:
    spec = decode(JobSpec, raw_spec)
    for task, tasks, first, questions in items:
        yield _outcome(partial(look_closer, spec, plan, questions, task, tasks, first))


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (Stopped, Superseded):
        return None
    except JobError as error:
        return error

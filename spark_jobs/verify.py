"""The verification of a copy: the source range itself is read again, and compared with what stands in the target.

    make_plan ─> share_out ─> show_share (a task each) ─> judge ─> look_closer (a task each, only where something differs) ─> report

It shares nothing with the lanes but record types and the pure selection. What a read_committed reader of the source sees, after bounds, map and header
rules, must be what a read_committed reader of the target sees, per pair of partitions, in count, order and content. Receipts are audited against that.
Differences are values in the report; an exception means that there is no verdict.
"""

import contextlib
import ctypes
import gc
from collections.abc import Callable, Iterator
from typing import TypeVar

from confluent_kafka import KafkaException

from spark_jobs import proof_ledger
from spark_jobs.contract import Difference, JobSpec
from spark_jobs.errors import JobError
from spark_jobs.proof_guest import Guest
from spark_jobs.proof_judge import Finding, Question
from spark_jobs.proof_ledger import ClaimedRun, ProofLedger
from spark_jobs.proof_look import Look
from spark_jobs.proof_plan import ProofPlan, ProofShare, check_topics, make_topics
from spark_jobs.proof_reader import Listener, Place, Range, RangeReader
from spark_jobs.proof_sides import Shown, SourceSide, TargetSide, segments
from spark_jobs.proof_spill import SOURCE, TARGET, Spill, SpillFinding, SpillSide
from spark_jobs.selection import Selection

T = TypeVar("T")


def show_share(spec: JobSpec, plan: ProofPlan, share: ProofShare) -> Shown:
    """Read what this task has to read. Raises JobError when it can not be read or is another topic now, Stopped or Superseded when told."""
    return _as_guest(spec, share.task, share.tasks, share.offsets, lambda guest: _show(spec, plan, share, guest))


def spill_share(spec: JobSpec, plan: ProofPlan, share: ProofShare) -> SpillFinding:
    """Compare these partitions, of both sides, by a hash of each record or key."""
    return _as_guest(spec, share.task, share.tasks, share.offsets, lambda guest: _spill(spec, plan, share, guest))


def _spill(spec: JobSpec, plan: ProofPlan, share: ProofShare, guest: Guest) -> SpillFinding:
    topics, is_latest = make_topics(spec), spec.compare == "latest"
    check_topics(topics)
    spill, selection = Spill(), Selection(spec.source, spec.target, is_stamped=plan.is_stamped)
    try:
        for r in share.sources:
            _check_readable(spec, r.partition, r.start, plan.log_starts[r.partition])
        source = Place(spec.source.client, spec.source.topic, "source", _log_start(spec, 0))
        target = Place(spec.target.client, spec.target.topic, "target", _log_start(spec, 1))
        _read(source, guest, spec, share.sources, SpillSide(spill, selection, SOURCE, latest=is_latest))
        _read(target, guest, spec, share.targets, SpillSide(spill, selection, TARGET, latest=is_latest))
        found = spill.compare_latest() if is_latest else spill.compare_records()
    finally:
        spill.close()
    check_topics(topics)
    return found


def look_closer(spec: JobSpec, plan: ProofPlan, questions: list[Question], task: int, tasks: int) -> list[Finding]:
    """Find out record by record what is wrong with these segments."""

    def look(guest: Guest) -> list[Finding]:
        planned = {r.partition for r in plan.sources}
        ledger = proof_ledger.load(spec, lambda p: p in planned, guest.turn)
        try:
            return [Look(spec, plan, ledger, guest).answer(question) for question in questions]
        finally:
            ledger.close()

    return _as_guest(spec, task, tasks, 0, look)


def _as_guest(spec: JobSpec, task: int, tasks: int, offsets: int, work: Callable[[Guest], T]) -> T:
    guest = Guest(spec, task, tasks, offsets)
    gc_was_on = gc.isenabled()
    _give_back()
    gc.disable()  # reading makes no cycles, and millions of objects that live for a moment
    try:
        guest.begin()
        found = work(guest)
        guest.done()
    except KafkaException as raised:
        raise JobError("target_unavailable", f"The topics can not be read: {raised.args[0].str()}.") from None
    else:
        return found
    finally:
        if gc_was_on:
            gc.enable()
        guest.close()


def _give_back() -> None:
    """The worker copied before: let the C library return what that freed, where it can, so that a task of the proof stays small."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _show(spec: JobSpec, plan: ProofPlan, share: ProofShare, guest: Guest) -> Shown:
    topics = make_topics(spec)
    check_topics(topics)
    shown = Shown()
    ledger = proof_ledger.load(spec, _wanted(spec, plan, share), guest.turn)
    try:
        _audit_strays(plan, share, ledger, shown)
        selection = Selection(spec.source, spec.target, is_stamped=plan.is_stamped)
        if spec.verify == "source":
            _read_source(spec, plan, share, (guest, ledger, selection, shown))
        else:
            _audit_only(plan, share, ledger, shown)
        _read_target(spec, plan, share, (guest, ledger, selection, shown))
    finally:
        ledger.close()
    check_topics(topics)
    return shown


def _wanted(spec: JobSpec, plan: ProofPlan, share: ProofShare) -> Callable[[int], bool]:
    """Whose receipts this task needs. The first one also looks for those that nobody planned."""
    planned = {r.partition for r in plan.sources}
    mine = {r.partition for r in share.sources} | {r.partition for r in _audited(plan, share)}
    if share.targets:
        mine |= {r.partition for r in share.targets} if spec.target.mapping == "same" else planned
    return lambda partition: partition in mine or (share.task == 0 and partition not in planned)


def _audited(plan: ProofPlan, share: ProofShare) -> tuple[Range, ...]:
    """Without rereading the source, its ranges are shared out anyhow, to look at their receipts."""
    return plan.sources[share.task :: share.tasks]


def _audit_strays(plan: ProofPlan, share: ProofShare, ledger: ProofLedger, shown: Shown) -> None:
    if share.task == 0:
        for partition in sorted(ledger.partitions() - {r.partition for r in plan.sources}):
            shown.differ(
                Difference(
                    "ledger", partition, message=f"Source partition {partition} is not in the plan, and has receipts."
                )
            )


def _end(plan: ProofPlan, ranged: Range, ledger: ProofLedger) -> int:
    if ranged.partition not in plan.is_open:
        return ranged.stop
    return min(ranged.stop, max(ranged.start, ledger.position(ranged.partition) or ranged.start))


def _audit_only(plan: ProofPlan, share: ProofShare, ledger: ProofLedger, shown: Shown) -> None:
    for r in _audited(plan, share):
        for segment in segments(r.partition, r.start, _end(plan, r, ledger), ledger, shown, kept=True):
            if segment.claim is not None:
                shown.promised += segment.claim.copied
                shown.lost += segment.claim.lost


_Hands = tuple[Guest, ProofLedger, Selection, Shown]


def _read_source(spec: JobSpec, plan: ProofPlan, share: ProofShare, hands: _Hands) -> None:
    guest, ledger, selection, shown = hands
    ranges = []
    for r in share.sources:
        stop, log_start = _end(plan, r, ledger), plan.log_starts[r.partition]
        if not spec.receipts_topic:
            _check_readable(spec, r.partition, r.start, log_start)
        if log_start > r.start:
            shown.readable_from[r.partition] = log_start
        ranges.append(Range(r.partition, min(max(r.start, log_start), stop), stop))
    starts = {r.partition: r.start for r in share.sources}
    kept = bool(spec.receipts_topic)
    side = SourceSide(spec.recovery, selection, ledger, shown, starts, kept=kept, compacted=plan.is_compacted)
    _read(Place(spec.source.client, spec.source.topic, "source", _log_start(spec, 0)), guest, spec, ranges, side)


def _check_readable(spec: JobSpec, partition: int, start: int, log_start: int) -> None:
    """Without receipts nothing can stand in for records that are gone."""
    if log_start > start:
        where = f"{spec.source.topic} partition {partition} begins at {log_start} now"
        raise JobError("data_lost", f"{where}, after the start {start} of the range, and there are no receipts.")


def _read_target(spec: JobSpec, plan: ProofPlan, share: ProofShare, hands: _Hands) -> None:
    guest, ledger, selection, shown = hands
    runs = (lambda r: ledger.runs(r.partition)) if spec.receipts_topic else _all_of(plan)
    side = TargetSide(spec.recovery, selection, ledger, shown, runs, with_digest=spec.verify != "count")
    place = Place(spec.target.client, spec.target.topic, "target", _log_start(spec, 1))
    _read(place, guest, spec, share.targets, side)


def _all_of(plan: ProofPlan) -> Callable[[Range], Iterator[ClaimedRun]]:
    """Without receipts, and with the same partitions, everything in the range of the target has to be the source's; nothing where the source has no such partition."""
    starts = {r.partition: r.start for r in plan.sources}
    return lambda r: iter(
        [ClaimedRun(r.start, r.stop - r.start, r.partition, starts[r.partition])] if r.partition in starts else []
    )


def _read(place: Place, guest: Guest, spec: JobSpec, ranges: tuple[Range, ...] | list[Range], side: Listener) -> None:
    if not ranges:
        return
    reader = RangeReader(place, guest, spec.stop_wait_ms / 1000.0)
    try:
        reader.read(ranges, side)
    finally:
        reader.close()


def _log_start(spec: JobSpec, which: int) -> Callable[[int], int]:
    return lambda partition: make_topics(spec)[which].bounds([partition])[partition].start

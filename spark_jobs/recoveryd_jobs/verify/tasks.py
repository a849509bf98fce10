"""The proof of a copy: the source range itself is read again, and compared with what is in the target.

    make_plan ─> share_out ─> show_share (a task each) ─> look_again (for what was added meanwhile) ─> judge
      ─> look_closer (a task each, only where something differs) ─> report

It shares nothing with the lanes but record types and the pure selection. What a read_committed reader of the source
sees, after bounds, mapping and header rules, must be what a read_committed reader of the target sees, per pair of
partitions, in count, order and content. Receipts are checked against that. Differences are values in the report; an
exception means that there is no verdict.
"""

import gc
from collections.abc import Callable, Container, Sequence
from typing import TypeVar

from confluent_kafka import KafkaException

from recoveryd_jobs.contract import Difference, JobSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.selection import Selection
from recoveryd_jobs.verify import ledger as proof_ledger
from recoveryd_jobs.verify.closer_look import Look
from recoveryd_jobs.verify.disk import naming_folder
from recoveryd_jobs.verify.guest import Guest
from recoveryd_jobs.verify.judge import PairFinding, PairQuestion, summed
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.match import SOURCE, TARGET
from recoveryd_jobs.verify.plan import ProofPlan, ProofShare, check_topics, is_apart, make_topics
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.reading import ShareReading, check_readable, end_of, open_reader
from recoveryd_jobs.verify.segments import segments
from recoveryd_jobs.verify.shown import RowSpool, Shown
from recoveryd_jobs.verify.spill import Spill, SpillFinding, SpillSide

T = TypeVar("T")

_BATCH = 1000


def show_share(spec: JobSpec, plan: ProofPlan, share: ProofShare) -> Shown:
    """Read what this task has to read. Raises JobError when that fails or the topic is another one now, Stopped or
    Superseded when told.
    """
    guest = Guest(spec, share.task, share.tasks, share.offsets, share.first)
    return _as_guest(guest, lambda guest: _show(spec, plan, share, guest))


def spill_share(spec: JobSpec, plan: ProofPlan, share: ProofShare) -> SpillFinding:
    """Compare these partitions, on both sides, by a hash of each record or key."""
    guest = Guest(spec, share.task, share.tasks, share.offsets, share.first)
    return _as_guest(guest, lambda guest: _spill(spec, plan, share, guest))


def _spill(spec: JobSpec, plan: ProofPlan, share: ProofShare, guest: Guest) -> SpillFinding:
    topics, is_latest = make_topics(spec), spec.compare == "latest"
    check_topics(topics)
    untimed = [0, 0]
    spill, selection = Spill(guest.step), Selection(spec.source, spec.target, is_stamped=plan.is_stamped)
    try:
        for r in share.sources:
            check_readable(spec, r.partition, r.start, plan.log_starts[r.partition])
        for side, ranges in ((SOURCE, share.sources), (TARGET, share.targets)):
            reader = open_reader(spec, side, guest, SpillSide(spill, selection, side, latest=is_latest), untimed)
            try:
                reader.read(ranges)
            finally:
                reader.close()
        found = spill.compare(latest=is_latest)
        found.untimed = untimed
    finally:
        spill.close()
    check_topics(topics)
    return found


def look_closer(
    spec: JobSpec, plan: ProofPlan, questions: list[PairQuestion], task: int, tasks: int, first: int = 0
) -> PairFinding:
    """Find out, record by record, how these segments differ: the first differences of all, since there may be millions
    of pairs. The tasks from `first` up to `tasks` do so at the same time.
    """

    def look(guest: Guest) -> PairFinding:
        planned = {r.partition for r in plan.sources}
        ledger = proof_ledger.load(spec, lambda p: p in planned, guest.turn, guest.took_aside, guest.step)
        closer = Look(spec, plan, ledger, guest)
        try:
            found = summed(map(closer.answer, questions))
        finally:
            closer.close()
            ledger.close()
        check_topics(make_topics(spec))
        return found

    return _as_guest(Guest(spec, task, tasks, 0, first), look)


def _as_guest(guest: Guest, work: Callable[[Guest], T]) -> T:
    gc_was_on = gc.isenabled()
    gc.disable()  # reading makes no cycles, only millions of objects that live for a moment
    try:
        guest.begin()
        with naming_folder():
            found = work(guest)
        guest.done()
    except KafkaException as raised:  # where no call names a side
        raise JobError("internal", f"The Kafka client broke off: {raised.args[0].str()}.") from None
    else:
        return found
    finally:
        if gc_was_on:
            gc.enable()
        guest.close()


def _show(spec: JobSpec, plan: ProofPlan, share: ProofShare, guest: Guest) -> Shown:
    topics = make_topics(spec)
    check_topics(topics)
    shown = Shown(spool=RowSpool() if is_apart(spec) else None)
    audited = () if spec.verify == "source" else plan.sources[share.task :: share.tasks]
    wanted = _wanted(spec, plan, share, audited)
    ledger = proof_ledger.load(spec, wanted, guest.turn, guest.took_aside, guest.step)
    try:
        with ledger.in_steps(guest.step):
            _audit_strays(plan, share, ledger, shown)
            audit_only(plan, audited, ledger, shown, guest.step)
            audit_places(plan, {r.partition for r in (*share.sources, *audited)}, ledger, shown)
        ShareReading(spec, plan, share, guest, ledger, shown).read()
    finally:
        ledger.close()
    check_topics(topics)
    return shown


def _wanted(spec: JobSpec, plan: ProofPlan, share: ProofShare, audited: Sequence[Range]) -> Callable[[int], bool]:
    """Which source partitions' receipts this task needs; `audited` are the ranges whose receipts it checks without
    reading the source. The first task also takes those of partitions that are not in the plan.
    """
    planned = {r.partition for r in plan.sources}
    mine = {r.partition for r in (*share.sources, *audited)}
    if share.targets:
        mine |= {r.partition for r in share.targets} if spec.target.mapping == "same" else planned
    return lambda partition: partition in mine or (share.task == 0 and partition not in planned)


def _audit_strays(plan: ProofPlan, share: ProofShare, ledger: ProofLedger, shown: Shown) -> None:
    if share.task == 0:
        for partition in sorted(ledger.partitions() - {r.partition for r in plan.sources}):
            shown.differ(
                Difference(
                    "ledger", partition, message=f"Source partition {partition} is not in the plan, and has receipts."
                )
            )


def audit_places(plan: ProofPlan, mine: Container[int], ledger: ProofLedger, shown: Shown) -> None:
    """Look at what receipts claim about partitions that the proof does not read, since nothing else would."""
    for partition, start, target, records in ledger.claims_outside(r.partition for r in plan.targets):
        if partition in mine and records:
            message = (
                f"The receipt from {start} on says that it wrote to partition {target}, which is none of the target."
            )
            shown.differ(Difference("ledger", partition, start, target, None, records, message))


def audit_only(
    plan: ProofPlan, audited: Sequence[Range], ledger: ProofLedger, shown: Shown, step: Callable[[], object]
) -> None:
    """Look at the receipts of ranges that are not read, with `step` in between, which may raise."""
    for r in audited:
        found = segments(r.partition, r.start, end_of(plan, r, ledger), ledger, shown, kept=True)
        for number, segment in enumerate(found):
            if number % _BATCH == 0:
                step()
            if segment.claim is not None:
                shown.promised += segment.claim.copied
                shown.lost += segment.claim.lost

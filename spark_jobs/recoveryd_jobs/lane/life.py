"""The life of one lane: fence, read the ledger, then chunk after chunk until its partitions are done or a directive
ends it.

    open ──> copy <──────────┐
      ^        │  └─ pause ──┤
      │        ├─ Redo ──────┘  abort, read the receipts
      └─ Doubt ┘                 drop the producer, a new one fences, read the receipts

A lane is a plain function of a spec: it runs in a Spark task or in a thread of a test. It decides nothing about the
recovery; it does what the newest directive says, under a lease, and leaves when a newer attempt exists. Every wait has
a deadline, and repeated trouble ends it after a while.
"""

import contextlib
import gc
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from confluent_kafka import KafkaException

from recoveryd_jobs import failpoints, receipts
from recoveryd_jobs.clients import QUEUE_FULL_SPEED_BYTES, lane_client_id
from recoveryd_jobs.contract import JobSpec, LaneSpec, PartitionRange, copy_client_id
from recoveryd_jobs.directives import Directives
from recoveryd_jobs.errors import Doubt, JobError, Redo, Superseded, untranslated
from recoveryd_jobs.lane.chunk import Committer
from recoveryd_jobs.lane.chunk_filler import ChunkFiller
from recoveryd_jobs.lane.heads import Heads, LedgerEnd
from recoveryd_jobs.lane.logs import ClusterLogs, LanePen
from recoveryd_jobs.lane.loop import FIRST_GUESS_BYTES, LaneLoop
from recoveryd_jobs.lane.markers import Markers
from recoveryd_jobs.lane.mending import Mender
from recoveryd_jobs.lane.record_copier import Copier
from recoveryd_jobs.lane.status import LaneStatus
from recoveryd_jobs.pacing import Lease, fetch_ahead_bytes
from recoveryd_jobs.progress import ProgressSender
from recoveryd_jobs.receipts import FoundReceipt, LaneLedger
from recoveryd_jobs.sinks.transactional import TransactionalTarget
from recoveryd_jobs.sources.range_reader import Source
from recoveryd_jobs.topics import NoAnswer, Topic

TROUBLE_BUDGET_S = 120.0
_FENCES_MAX = 3
_REFRESH_S = 10.0
_PAUSE_S = 0.5
_CLOSE_ABORT_S = 5.0


@dataclass(frozen=True, slots=True)
class LaneOutcome:
    """How a lane ended: done | stopped | capped | left | failed. `positions`: by partition, how far it is known to be
    copied.
    """

    lane: int
    ended: str
    error_code: str = ""
    error_message: str = ""
    positions: dict[int, int] = field(default_factory=dict, compare=False)


def run_lane(spec: JobSpec, lane: LaneSpec, *, again: bool = False) -> LaneOutcome:
    """Run one lane to its end. `again`: this attempt has run it before, in a task that died. Never raises: an error is
    in the outcome.
    """
    try:
        work = Lane(spec, lane, again=again)
        return LaneOutcome(lane.lane, work.run(), positions=work.copied_to)
    except Superseded:
        return LaneOutcome(lane.lane, "left")
    except JobError as error:
        return LaneOutcome(lane.lane, "failed", error.code, error.message)
    except Exception:  # noqa: BLE001  (the edge of the task: a bug must reach the daemon as an error code)
        return LaneOutcome(lane.lane, "failed", "internal", "".join(traceback.format_exc()[-2000:]))


class Lane:
    """Holds the clients of one lane while `run` lasts."""

    def __init__(self, spec: JobSpec, lane: LaneSpec, *, again: bool) -> None:
        client_id = lane_client_id(spec.recovery, lane.lane)
        self._spec, self._lane, self._client_id = spec, lane, client_id
        self._heads = Heads(spec, lane.lane, lane.partitions, lane.ledger_from)
        self._status = LaneStatus(spec, lane, self._heads)
        self._progress = ProgressSender(spec.control, f"{client_id}.progress", lane.lane, self._status.heartbeat)
        self._status.announce = self._progress.nudge
        self._directives = Directives(spec, f"{client_id}.directives")
        self._source_topic = Topic(spec.source, "source", f"{client_id}.admin")
        self._target_topic = Topic(spec.target, "target", f"{client_id}.admin")
        self._receipts_topic = _receipts_topic(spec, self._target_topic, f"{client_id}.admin")
        self._source: Source | None = None
        self._target: TransactionalTarget | None = None
        self._trouble_since_s: float | None = None
        self._fences = 0
        self._is_first = spec.attempt == 1 and not again  # and nobody has written as this lane
        self.copied_to: dict[int, int] = {}  # what this lane itself committed: the ledger must not end before it

    def run(self) -> str:
        """How it ended: done | stopped | capped. Raises Superseded or JobError."""
        self._progress.start()
        gc_was_on = gc.isenabled()
        gc.disable()  # the hot loop makes no cycles; LaneLoop collects now and then between chunks
        try:
            return self._run_through_doubt(*self._prepare())
        except JobError as error:
            self._status.feel("blocked", why=error.message)
            raise
        finally:
            if gc_was_on:
                gc.enable()
            self._close()

    def _prepare(self) -> tuple[TransactionalTarget, LaneLoop]:
        """Everything that can be prepared before the older attempt is fenced. It reads directives first, so that a late
        attempt never fences a newer one.
        """
        deadline_s = time.monotonic() + TROUBLE_BUDGET_S
        for topic in (self._source_topic, self._target_topic):
            try:
                topic.check_id(deadline_s, self._waiting)
            except NoAnswer as silence:
                raise topic.unanswered(silence) from None
        try:
            settings = self._target_topic.settings(deadline_s, self._waiting)
        except NoAnswer as silence:
            raise self._target_topic.unanswered(silence) from None
        self._target = target = TransactionalTarget(self._spec, self._lane.lane, settings.max_message_bytes)
        copier = Copier(self._spec, target, is_stamped=settings.is_stamped)
        first = Lease(self._directives.current().directive, self._lane.lane, len(self._spec.lanes), time.monotonic())
        ahead_bytes = fetch_ahead_bytes(first.rates(time.monotonic(), 0.0), FIRST_GUESS_BYTES, QUEUE_FULL_SPEED_BYTES)
        copier_id = copy_client_id(self._spec.scope, self._spec.recovery)
        self._source = Source(self._spec.source, copier_id, ahead_bytes, len(self._lane.partitions))
        target.connect()
        self._source.connect()
        intake = ChunkFiller(self._spec, self._lane, self._source, self._source_topic, copier)
        self._await_word(deadline_s)
        return target, LaneLoop(self._spec, self._lane, self._status, self._directives, target, copier, intake)

    def _await_word(self, deadline_s: float) -> None:
        self._directives.await_word(deadline_s, lambda: self._starting("waits for word of what is wanted"))
        if self._directives.is_superseded():
            raise Superseded

    def _run_through_doubt(self, target: TransactionalTarget, loop: LaneLoop) -> str:
        while True:
            try:
                loop.begin(*self._open(target))
                ended = self._run_through_redo(target, loop)
            except (Doubt, KafkaException, SystemError) as trouble:
                doubt = trouble if isinstance(trouble, Doubt) else untranslated(trouble)
                loop.judge_pace()
                target.drop()
                self.copied_to = loop.positions
                self._note_trouble(loop, str(doubt))
                self._check_fence(doubt)
                time.sleep(_PAUSE_S)
            else:
                if ended is not None:
                    self.copied_to = loop.positions
                    return ended

    def _open(self, target: TransactionalTarget) -> tuple[LaneLedger, Committer]:
        """`init_transactions` first, then the receipts up to the high watermark, so that no older attempt can add a
        receipt after they were read.
        """
        self._starting("opens its transactional session")
        target.open(time.monotonic() + TROUBLE_BUDGET_S, self._starting)
        failpoints.hit("lane.after_init")
        return self._begin(target)

    def _begin(self, target: TransactionalTarget) -> tuple[LaneLedger, Committer]:
        """Call it when no transaction of this lane is open, and nobody else can open one."""
        try:
            found = self._read(None, False) if self._is_first else self._settled(target)
        except Doubt:
            # A topic made again with fewer partitions gives no answer about one that it lacks.
            with contextlib.suppress(Doubt):
                self._check_receipts_topic(time.monotonic())
            raise
        failpoints.hit("lane.after_receipts_read")
        self._check_receipts_topic(time.monotonic() + TROUBLE_BUDGET_S)
        ranges = [_with_floor(r, self.copied_to.get(r.partition, 0)) for r in self._lane.partitions]
        try:
            ledger = self._fold(found, ranges)
        except JobError:
            if found.head is None:
                raise
            found = replace(self._read(None, True), head_at=0)  # the head does not fit
            ledger = self._fold(found, ranges)
        self._heads.begin(found.head, found.receipts, found.head_at)
        if ledger.newest_attempt > self._spec.attempt:
            raise Superseded
        self._is_first = False
        source, written = self._source_topic, [t for t in (self._target_topic, self._receipts_topic) if t is not None]
        markers = Markers(self._spec, self._target_topic, self._receipts_topic)
        number, partition = self._lane.lane, found.partition
        end = None if self._receipts_topic is None else LedgerEnd(self._receipts_topic, partition)
        return ledger, Committer(self._spec, number, target, source, written, partition, self._heads, markers, end)

    def _read(self, end: int | None, whole: bool) -> FoundReceipt:
        begin = 0 if whole else self._heads.offset
        return receipts.read(self._spec, f"{self._client_id}.ledger", self._starting, self._lane.lane, begin, end)

    def _settled(self, target: TransactionalTarget) -> FoundReceipt:
        """The receipts, once target and ledger say the same."""
        self._starting("looks for transactions that lost their end")
        topics = [t for t in (self._target_topic, self._receipts_topic) if t is not None]
        floors = {r.partition: max(r.journaled, self.copied_to.get(r.partition, 0)) for r in self._lane.partitions}
        with ClusterLogs(self._spec, self._lane.lane, f"{self._client_id}.logs", *topics) as logs:
            pen = LanePen(self._spec, self._lane.lane, target, [self._source_topic, *topics])
            with naming_made_again(self._target_topic, self._waiting):
                return Mender(self._spec, self._lane, logs, pen, self._read, self._starting, floors).settle()

    def _fold(self, found: FoundReceipt, ranges: list[PartitionRange]) -> LaneLedger:
        ids = self._spec.source.topic_id, self._spec.target.topic_id
        head, newest = found.head, found.newest_attempt
        return receipts.fold(found.receipts, ranges, self._lane.lane, *ids, head=head, newest_attempt=newest)

    def _check_receipts_topic(self, deadline_s: float) -> None:
        """Ask for the topic's id after the receipts were read, which proves that they came from the planned topic. At
        least one answer is waited for, whatever the deadline (monotonic).
        """
        if self._receipts_topic is None:
            return
        try:
            self._receipts_topic.check_id(deadline_s, self._waiting)
        except NoAnswer as silence:
            raise Doubt(f"no word whether the receipts topic is still the same: {silence}") from None

    def _run_through_redo(self, target: TransactionalTarget, loop: LaneLoop) -> str | None:
        """Work until the lane ended; None when a new producer is needed."""
        while True:
            try:
                return loop.work()
            except Redo as redo:
                loop.judge_pace()
                target.abort()
                if not loop.take_advice(redo):
                    self._note_trouble(loop, str(redo))
                    time.sleep(_PAUSE_S)
                self.copied_to = loop.positions
                if redo.reopen:
                    target.drop()
                    return None
                loop.begin(*self._begin(target))

    def _note_trouble(self, loop: LaneLoop, why: str) -> None:
        """Raises JobError when nothing could be committed for TROUBLE_BUDGET_S. Trouble before a time in which the lane
        had nothing to commit, because it was told to rest or its source had no more, does not count.
        """
        now_s = time.monotonic()
        if self._trouble_since_s is None or max(loop.committed_s, loop.rested_s) > self._trouble_since_s:
            self._trouble_since_s, self._fences = now_s, 0
            self._status.failed_chunks += 1
        if now_s - self._trouble_since_s > TROUBLE_BUDGET_S:
            said = f"{why}{self._target_topic.shut_out()}"
            raise JobError("target_unavailable", f"No chunk could be committed for {TROUBLE_BUDGET_S:.0f} s: {said}.")
        self._status.feel("starting", why=f"starts over from the ledger: {why}")

    def _check_fence(self, doubt: Doubt) -> None:
        """Whether a newer attempt fenced this lane, or the broker did because the transaction took too long; only the
        directives topic can tell.
        """
        if self._directives.is_superseded():
            raise Superseded
        if not doubt.fenced:
            return
        self._fences += 1
        is_known = self._directives.refresh(_REFRESH_S)
        if self._directives.is_superseded():
            raise Superseded
        if not is_known or self._fences > _FENCES_MAX:
            raise JobError(
                "fenced", f"Another producer took over the transactional id of lane {self._lane.lane}: {doubt}."
            )

    def _waiting(self) -> None:
        self._starting("waits for the clusters to answer")

    def _starting(self, why: str) -> None:
        received = self._directives.current()
        if self._directives.is_superseded() or received.directive.wanted == "exit":
            raise Superseded
        self._status.feel("starting", received.directive.sequence, why=why)

    def _close(self) -> None:
        """Abort the open transaction if that is quick, to free the target's last stable offset; else the next attempt
        or the broker ends it. A client that fails here takes nothing away from how the lane ended, and keeps no other
        from being closed.
        """
        with contextlib.suppress(Doubt, KafkaException, SystemError), contextlib.ExitStack() as parts:
            parts.callback(self._directives.close)
            parts.callback(self._progress.close)
            if self._source is not None:
                parts.callback(self._source.close)
            if self._target is not None:
                parts.callback(self._target.drop)
                self._target.abort(_CLOSE_ABORT_S)


def _receipts_topic(spec: JobSpec, target: Topic, client_id: str) -> Topic | None:
    """None for a plan that did not pin the topic."""
    if spec.receipts is None:
        return None
    place = replace(spec.target, topic=spec.receipts.topic, topic_id=spec.receipts.topic_id)
    return Topic(place, "receipts", client_id, "ledger_broken", beside=target)


def _with_floor(planned: PartitionRange, copied_to: int) -> PartitionRange:
    return replace(planned, journaled=max(planned.journaled, copied_to))


@contextlib.contextmanager
def naming_made_again(topic: Topic, waiting: Callable[[], None]) -> Iterator[None]:
    """A topic that was made again has lost nothing: where its records are missed inside, that is raised instead."""
    try:
        yield
    except JobError:
        with contextlib.suppress(NoAnswer):
            topic.check_id(time.monotonic(), waiting)
        raise

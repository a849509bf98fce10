"""The inner loop of a lane: obey the newest directive, keep to the rate, read and copy a slice, commit when a chunk is
due.

Failed producers and attempts that took over are not handled here; errors go up to `recoveryd_jobs.lane.life`, which
begins again with a fresh ledger.
"""

import gc
import math
import time

from recoveryd_jobs import failpoints
from recoveryd_jobs.clients import QUEUE_FULL_SPEED_BYTES, lane_client_id
from recoveryd_jobs.contract import JobSpec, LaneSpec
from recoveryd_jobs.directives import Directives, Received
from recoveryd_jobs.errors import JobError, Redo, Superseded
from recoveryd_jobs.fetching import SIGN_S
from recoveryd_jobs.lane.chunk import Chunk, Committer
from recoveryd_jobs.lane.chunk_filler import ChunkFiller
from recoveryd_jobs.lane.record_copier import Copier
from recoveryd_jobs.lane.status import LaneStatus
from recoveryd_jobs.pacing import Lease, Pacer, fetch_ahead_bytes
from recoveryd_jobs.receipts import LaneLedger
from recoveryd_jobs.sinks.transactional import TransactionalTarget
from recoveryd_jobs.topics import unwritable

_CHUNK_AGE_MAX_S = 30.0
_IDLE_COMMIT_S = 0.5
_SLICE_RECORDS = 10_000
_SLICE_BYTES = 4 * 1024 * 1024
FIRST_GUESS_BYTES = 8192.0
_WAIT_S = 0.1
_REST_S = 0.5
_GIVE_WAY_S = 5.0  # how long a lane that is told to rest waits for the answers that a commit needs
_DENSE_CHUNKS = 20
_SHRINK_MAX = 1 << 16
_LATE = 0.75  # of the transaction time-out: a chunk that fails at this age was too large for the target
_EARLY = 0.25  # one that was committed at this age could have been twice as large
_CALM_CHUNKS, _CALM_MAX = 4, 256  # so many in a row before larger ones are tried, twice as many after each failure
_COLLECT_S = 60.0


class LaneLoop:
    """Works on chunks from a `begin` to the next. Not thread-safe; other threads read `status` only."""

    def __init__(
        self,
        spec: JobSpec,
        lane: LaneSpec,
        status: LaneStatus,
        directives: Directives,
        target: TransactionalTarget,
        copier: Copier,
        intake: ChunkFiller,
    ) -> None:
        self._spec, self._lane, self._status = spec, lane, status
        self._directives, self._target, self._copier, self._intake = directives, target, copier, intake
        self._received: Received | None = None
        self._lease = Lease(spec.directive, lane.lane, len(spec.lanes), time.monotonic())
        self._pacer = Pacer(time.monotonic())
        self._ledger = LaneLedger()
        self._committer: Committer | None = None
        self._chunk = Chunk({})
        self._record_bytes = FIRST_GUESS_BYTES
        self._read_s = self._collected_s = time.monotonic()
        self._dense_chunks_left = 0
        self._shrink = 1
        self._calm, self._calm_wanted = 0, _CALM_CHUNKS
        self.committed_s = -math.inf  # monotonic time of the last commit that worked
        self.rested_s = -math.inf  # monotonic time when it last had only to wait: it was told to, or there is no more

    @property
    def positions(self) -> dict[int, int]:
        """Positions known to be committed."""
        return {partition: standing.position for partition, standing in self._ledger.standings.items()}

    def begin(self, ledger: LaneLedger, committer: Committer) -> None:
        """Start with the ledger as the topic has it, after a fence or an abort."""
        self._ledger, self._committer = ledger, committer
        # An empty chunk at the ledger's positions; whatever was fetched or counted since is dropped.
        self._status.ledger = self._ledger
        self._status.records_total = sum(s.copied for s in self._ledger.standings.values())
        self._status.bytes_total = sum(s.bytes for s in self._ledger.standings.values())
        self._chunk = Chunk(self._ledger.standings)
        self._intake.begin(self._chunk, self._ledger)

    def judge_pace(self) -> None:
        """The open chunk failed, however: when it was old, the target takes less in the time of a transaction than the
        chunk held, and smaller ones follow.
        """
        limit_s = self._spec.transaction_timeout_ms / 1000.0 * _LATE
        if self._chunk.age_s(time.monotonic()) >= limit_s:
            self._make_smaller()
        self._chunk.opened_s = None  # it is judged once

    def take_advice(self, redo: Redo) -> bool:
        """Do the chunk dense or smaller next time, as `redo` asks; False when it asks for neither. Raises JobError when
        that was tried already.
        """
        if redo.code == "target_not_authorised":
            raise self._refused(redo)
        if redo.code is not None and self._copier.dense:
            raise self._chunk.refused_record(self._spec) or JobError(redo.code, f"The target refused records: {redo}.")
        if redo.dense and not self._copier.dense:
            self._copier.dense = True
            self._dense_chunks_left = _DENSE_CHUNKS
        elif redo.smaller and self._shrink < _SHRINK_MAX:
            self._make_smaller()
        else:
            return False
        return True

    def _make_smaller(self) -> None:
        self._shrink = min(self._shrink * 4, _SHRINK_MAX)
        self._calm, self._calm_wanted = 0, min(self._calm_wanted * 2, _CALM_MAX)

    def _grow_back(self, is_early: bool) -> None:
        """After chunks that were too large: slowly, since a target may take much at first and little for long. What was
        learned so is forgotten as slowly, at full size.
        """
        self._calm = self._calm + 1 if is_early else 0
        if self._calm >= self._calm_wanted:
            if self._shrink == 1:
                self._calm_wanted = max(_CALM_CHUNKS, self._calm_wanted // 2)
            self._calm, self._shrink = 0, max(1, self._shrink // 2)

    def _refused(self, redo: Redo) -> JobError:
        """Target and receipts share the transaction, and its error does not say which of the two topics the user may
        not write to.
        """
        spec = self._spec
        topics = (spec.target.topic, spec.receipts_topic)
        lacking = unwritable(spec.target, lane_client_id(spec.recovery, self._lane.lane), topics)
        named = " and on ".join(f"Topic {topic}" for topic in lacking) or f"Topic {topics[0]} or on Topic {topics[1]}"
        return JobError(
            "target_not_authorised",
            f"The target cluster refuses to be written: {redo}; the user lacks Write on {named}.",
        )

    def work(self) -> str:
        """How the lane ended: done | stopped | capped. Raises Superseded, Redo, Doubt or JobError."""
        while True:
            received = self._obey()
            wanted = received.directive.wanted
            if (loss := self._intake.loss) is not None:
                self._commit()
                raise loss
            if not self._intake.unfinished or self._intake.is_capped or wanted in {"stop", "verify"}:
                return self._end()
            now_s = time.monotonic()
            rates = self._lease.rates(now_s, self._status.bytes_per_s)
            if wanted == "pause" or rates.leaseless:
                self._rest(received, "paused" if wanted == "pause" else "leaseless")
                continue
            if self._is_commit_due(now_s):
                self._commit()
                self._intake.fetch_ahead(fetch_ahead_bytes(rates, self._record_bytes, QUEUE_FULL_SPEED_BYTES))
            elif not self._chunk.has_moved:
                self._keep_ledger_short()
            self._pacer.set_rates(rates, now_s)
            wait_s = self._pacer.wait_s(now_s)
            if wait_s > 0 and not self._intake.is_free:
                if not self._chunk.has_moved:
                    self._status.standstill.note(wait_s, now_s)
                self._directives.wait(received, min(wait_s, _WAIT_S))
            else:
                self._copy_slice()
            self._feel_busy(received)

    def _obey(self) -> Received:
        received = self._directives.current()
        if time.monotonic() - received.at_s > self._spec.orphan_after_ms / 1000.0:
            # No daemon leads this recovery any more, and on a Spark cluster the driver may be gone as well.
            raise Superseded
        if received is not self._received:
            if received.directive.attempt > self._spec.attempt or received.directive.wanted == "exit":
                raise Superseded
            self._received = received
            self._lease = Lease(received.directive, self._lane.lane, len(self._spec.lanes), received.at_s)
        return received

    def _copy_slice(self) -> None:
        if not self._target.is_open:
            self._target.begin()  # costs nothing until the first record
        before_records, before_bytes = self._chunk.records, self._chunk.bytes
        records, size = self._intake.take(self._slice_records(), _WAIT_S)
        if not records:
            if self._intake.is_idle and not self._chunk.has_moved:
                self.rested_s = time.monotonic()
            return
        now_s = self._read_s = time.monotonic()
        each = self._record_bytes + (size / records - self._record_bytes) * 0.5
        self._record_bytes = max(1.0, each)  # records may have no bytes at all, and it is divided by
        self._pacer.took(records, size, now_s)
        self._status.records_total += self._chunk.records - before_records
        self._status.bytes_total += self._chunk.bytes - before_bytes
        self._target.producer.poll(0)
        failpoints.hit("lane.after_produce")

    def _slice_records(self) -> int:
        """How many records to take at once: enough to be fast, few enough to respect every limit."""
        limits, chunk = self._spec.chunk, self._chunk
        count = min(_SLICE_RECORDS, int(_SLICE_BYTES / self._record_bytes))
        count = min(count, limits.max_records // self._shrink - chunk.records)
        count = min(count, int((limits.max_bytes / self._shrink - chunk.bytes) / self._record_bytes) + 1)
        limit = self._pacer.slice_records(self._record_bytes)
        return max(1, count if limit is None else min(count, limit))

    def _is_commit_due(self, now_s: float) -> bool:
        chunk, limits = self._chunk, self._spec.chunk
        if not chunk.has_moved:
            return False
        if chunk.records * self._shrink >= limits.max_records or chunk.bytes * self._shrink >= limits.max_bytes:
            return True
        interval_s = min(limits.max_ms / 1000.0, _CHUNK_AGE_MAX_S)
        if chunk.records and self._intake.is_idle and now_s - self._read_s >= _IDLE_COMMIT_S:
            # When following a slow stream, each record would get a receipt of its own; a range with an end is done soon
            # anyway.
            return now_s - self.committed_s >= interval_s or not self._intake.is_following
        return chunk.age_s(now_s) >= interval_s

    def _give_way(self, began_s: float) -> None:
        """For a commit that waits for an answer. What is given up here is copied again."""
        wanted = self._obey().directive.wanted
        if wanted != "run" and time.monotonic() - began_s >= _GIVE_WAY_S:
            raise Redo(f"told to {wanted} while a cluster does not say whether its topic is still the same")

    def _commit(self) -> None:
        if not self._chunk.has_moved:
            return
        assert self._committer is not None
        began_s, chunk = time.monotonic(), self._chunk
        made = self._committer.commit(chunk, self._ledger, lambda: self._give_way(began_s))
        self._status.event_times_ms = {**self._status.event_times_ms, **chunk.event_times_ms}
        self._ledger = self._ledger.with_receipts(made)
        self._status.ledger = self._ledger
        self._chunk = Chunk(self._ledger.standings)
        self._intake.adopt(self._chunk, self._ledger)
        self.committed_s = now_s = time.monotonic()
        if self._dense_chunks_left:
            self._dense_chunks_left -= 1
            self._copier.dense = self._dense_chunks_left > 0 or self._copier.is_always_dense
        self._grow_back(chunk.age_s(now_s) < self._spec.transaction_timeout_ms / 1000.0 * _EARLY)
        if now_s - self._collected_s > _COLLECT_S:
            self._collected_s = now_s
            gc.collect()

    def _keep_ledger_short(self) -> None:
        """There is nothing to commit, and whoever reads the ledger of this lane would have to read those of all."""
        assert self._committer is not None
        began_s = time.monotonic()
        if self._committer.keep_short(self._ledger, self.committed_s, lambda: self._give_way(began_s)):
            self._await_markers()

    def _await_markers(self) -> None:
        """Nothing is committed now that would show readers what was committed before."""
        assert self._committer is not None
        self._committer.await_markers(self._obey)

    def _rest(self, received: Received, state: str) -> None:
        """Commit the open chunk, report it, and wait for another directive."""
        sequence = received.directive.sequence
        self._intake.rest()
        if self._chunk.has_moved:
            self._status.feel("pausing", sequence, chunk_open=True, why=received.directive.why)
            self._commit()
        self._await_markers()
        self.rested_s = time.monotonic()
        why = received.directive.why if state == "paused" else "no directive came within two lease times"
        if self._status.feel(state, sequence, why=why):
            self._status.announce()
        self._directives.wait(received, _REST_S)

    def _end(self) -> str:
        """Commit the open chunk; the last heartbeat of the lane then has its final positions."""
        sequence = self._directives.current().directive.sequence
        self._status.feel("draining", sequence, chunk_open=self._chunk.has_moved)
        self._commit()
        self._await_markers()
        ended = "done"
        if self._intake.unfinished:
            ended = "capped" if self._intake.is_capped else "stopped"
        failpoints.hit("lane.drained")
        self._status.feel("done", sequence, why=ended)
        return ended

    def _feel_busy(self, received: Received) -> None:
        blocked = self._intake.blocked
        self._status.hold(frozenset(blocked))
        self._status.fetched_s = self._intake.fetched_s
        state = "blocked" if blocked and len(blocked) == len(self._intake.unfinished) else "copying"
        why = "; ".join(blocked.values())[:500] if blocked else ""
        if self._intake.is_unanswered:
            why = "waits for the source to answer"
        elif self._intake.is_deaf:
            why = "the source has more of some partitions than it gives; a new consumer begins if that stays so"
        elif time.monotonic() - self._intake.fetched_s < SIGN_S:
            why = "reads over what no reader sees, such as aborted records"
        changed = self._status.feel(state, received.directive.sequence, chunk_open=self._chunk.has_moved, why=why)
        if changed:
            self._status.announce()

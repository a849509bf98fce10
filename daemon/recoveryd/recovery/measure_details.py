"""Metrics that show one recovery closely: its state, partitions, lanes, completeness, verification and end.

A scrape runs in the daemon's loop, so it must stay short: all live recoveries have series of their own, but only a
bounded number of partitions and ended recoveries do.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from recoveryd.kernel.metrics import Sample
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import Stop
from recoveryd.live.params import LOOK_COUNTS_LEAST_MS
from recoveryd.live.slice import LIVE
from recoveryd.recovery import metrics as m
from recoveryd.recovery.model import RESTING, PartitionProgress, Recovery
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.progress import verified_ratio
from recoveryd.recovery.recoveries import is_over
from recoveryd.recovery.sampled_ends import fresh_ends, is_end_known
from recoveryd.recovery.slice import RECOVERY

ENDED_KEPT_MS = 3_600_000
ENDED_AT_MOST = 100
PARTITIONS_AT_MOST = 1_000
EVIDENCE_AT_MOST = 20
_SILENT_MS = 20_000
_ANSWERS = ("accepted", "rejected", "duplicate", "expired")
_PARTITION_STATES = ("waiting", "copying", "paused", "blocked", "done")


def details(state: CoreState, now_ms: int, fresh_ms: int = LOOK_COUNTS_LEAST_MS) -> Iterator[Sample]:
    """All live recoveries and the newest of those that ended within the hour; partitions of live ones, up to
    `PARTITIONS_AT_MOST`. Log ends count that were seen within `fresh_ms`.
    """
    room, samples = PARTITIONS_AT_MOST, state.of(LIVE).samples
    for recovery in state.of(RECOVERY).recoveries.live.values():
        source = recovery.spec.source
        ends = fresh_ends(samples.get((source.cluster, source.topic)), now_ms, fresh_ms)
        if _is_shown(recovery, now_ms):
            yield from _of(recovery, ends)
        if recovery.plan is None or is_over(recovery):
            continue
        yield from _lanes(recovery, state.of(RECOVERY).observed.get(recovery.id, Observed()), now_ms)
        states = Counter(p.state for p in recovery.progress.partitions)
        yield from (Sample(m.PARTITIONS, (recovery.id, name), states[name]) for name in _PARTITION_STATES)
        shown = recovery.progress.partitions[:room]
        room -= len(shown)
        yield from _partitions(recovery, shown, ends)
    for recovery in islice(reversed(state.of(RECOVERY).recoveries.ended.values()), ENDED_AT_MOST):
        if _is_shown(recovery, now_ms):
            yield from _of(recovery, {})


def _is_shown(recovery: Recovery, now_ms: int) -> bool:
    return not is_over(recovery) or now_ms - recovery.updated_ms <= ENDED_KEPT_MS


def _of(recovery: Recovery, ends: Mapping[int, int]) -> Iterator[Sample]:
    yield Sample(m.RECOVERY_STATE, (recovery.id, recovery.state.value), 1)
    if recovery.held and recovery.state in RESTING:
        yield Sample(m.RECOVERY_HELD, (recovery.id, recovery.held), 1)
    yield Sample(m.ATTEMPT_NUMBER, (recovery.id,), recovery.attempt.number)
    yield Sample(m.ATTEMPT_FAILURES, (recovery.id,), recovery.attempt.failures)
    yield from _offsets(recovery, ends)
    found = recovery.verification
    if found is not None:
        yield Sample(m.VERIFICATION_RECORDS, (recovery.id, found.result, "source"), found.source_records)
        yield Sample(m.VERIFICATION_RECORDS, (recovery.id, found.result, "target"), found.target_records)
        yield Sample(m.VERIFICATION_RECORDS, (recovery.id, found.result, "extra"), found.extra_records)
    ratio = verified_ratio(recovery)
    if ratio is not None:
        yield Sample(m.VERIFIED_RATIO, (recovery.id,), ratio)
    if recovery.stop is not None:
        yield from _stop(recovery.id, recovery.stop)


def _stop(recovery: str, stop: Stop) -> Iterator[Sample]:
    yield Sample(m.STOP_TIME, (recovery, stop.reason.value, stop.mode or ""), stop.at_ms / 1000)
    numbers = islice(_numbers(stop.evidence), EVIDENCE_AT_MOST)
    yield from (Sample(m.STOP_EVIDENCE, (recovery, name), value) for name, value in numbers)


def _numbers(evidence: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Numbers as they are; for a list of partitions its length and the sum of each field, such as
    `partitions.position`.
    """
    for name, value in evidence.items():
        if isinstance(value, int | float):
            yield name, value
        elif isinstance(value, list | tuple):
            yield name, len(value)
            sums: Counter[str] = Counter()
            for row in value:
                if isinstance(row, Mapping):
                    sums.update({k: v for k, v in row.items() if k != "partition" and isinstance(v, int | float)})
            yield from ((f"{name}.{field}", total) for field, total in sums.items())


def _offsets(recovery: Recovery, ends: Mapping[int, int]) -> Iterator[Sample]:
    """Offsets by outcome. They add up to the range: the planned one while it runs, the covered part once completeness
    is known. What is left is not told while the end that it follows is not known.
    """
    # The table of a pause is of what was covered then; what goes on, or may, has moved on or will.
    ended = recovery.completeness if is_over(recovery) or recovery.is_proving else ()
    rows = ended or recovery.progress.partitions
    if recovery.plan is None or not rows:
        return
    known = {name: sum(getattr(row, name) for row in rows) for name in ("copied", "filtered", "skipped", "lost")}
    if ended:
        known |= {"unexplained": sum(row.unexplained for row in ended), "left": 0}
    else:
        starts = {p.partition: p.start for p in recovery.plan.partitions}
        covered = sum(p.position - starts.get(p.partition, p.position) for p in recovery.progress.partitions)
        known["unexplained"] = covered - sum(known.values())
        if recovery.progress.lag_records is not None and is_end_known(recovery, ends):
            known["left"] = recovery.progress.lag_records
    yield from (Sample(m.RECOVERY_OFFSETS, (recovery.id, name), value) for name, value in known.items())


def _partitions(recovery: Recovery, shown: tuple[PartitionProgress, ...], ends: Mapping[int, int]) -> Iterator[Sample]:
    """One that follows stops before the newest known end, and once its copy is over, where it has come to."""
    for row in shown:
        labels = (recovery.id, str(row.partition))
        yield Sample(m.PARTITION_POSITION, labels, row.position)
        follows_to = row.position if recovery.is_proving else ends.get(row.partition)
        stop = follows_to if row.stop is None else row.stop
        if stop is not None:
            yield Sample(m.PARTITION_STOP, labels, stop)


def _lanes(recovery: Recovery, seen: Observed, now_ms: int) -> Iterator[Sample]:
    if recovery.plan is None or recovery.attempt.released or recovery.is_proving:
        return
    heard = {n: h for n, h in seen.lanes.items() if now_ms - h.received_ms <= _SILENT_MS}
    states = Counter(h.heartbeat.state for h in heard.values())
    states["silent"] = max(0, len(recovery.plan.lanes) - len(heard))
    yield from (Sample(m.LANES, (recovery.id, name), count) for name, count in states.items())

"""The progress part of the status record, from heartbeats (hints) and from the ledger (proof)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import is_not

from recoveryd.kernel.replacing import replaced
from recoveryd.kernel.states import State
from recoveryd.recovery.events import LedgerPartition
from recoveryd.recovery.model import PartitionProgress, Recovery
from recoveryd.recovery.observed import Heard
from recoveryd_jobs.contract import LaneHeartbeat, LanePosition


def with_lane_positions(recovery: Recovery, heartbeat: LaneHeartbeat, lanes: Mapping[int, Heard]) -> Recovery:
    """Fold one heartbeat in. A durable position never moves back, nor past the end of the range: what says otherwise is
    ignored per partition.
    """
    before, known = lanes[heartbeat.lane].before, recovery.progress.partitions
    is_told = before is None or before.heartbeat.positions is not heartbeat.positions
    rows = _with_newer(known, heartbeat.positions) if is_told else known
    beats = [h.heartbeat for h in lanes.values() if h.heartbeat.state != "done"]  # its last rate would stay for ever
    records_per_s = sum(b.records_per_s for b in beats)
    following = recovery.plan is not None and recovery.plan.is_following
    lag = recovery.progress.lag_records
    if not following and (lag is None or rows is not known):
        lag = sum([max(0, (row.stop or 0) - row.position) for row in rows])
    # Behind a moving head, the rate alone does not give the time left: the forecast, made each minute, does.
    eta = recovery.progress.eta_seconds if following else lag / records_per_s if lag and records_per_s > 0 else None
    progress = replaced(
        recovery.progress,
        partitions=rows,
        records_per_s=records_per_s,
        bytes_per_s=sum(b.bytes_per_s for b in beats),
        lag_records=lag,
        eta_seconds=0.0 if lag == 0 else eta,
    )
    return replaced(recovery, progress=progress)


def with_readers(recovery: Recovery, readers: Mapping[int, Heard]) -> Recovery:
    """Fold in the newest heartbeats of the verification's tasks. Rates are theirs while it runs; positions stay."""
    beats = [h.heartbeat for h in readers.values()]
    is_working = recovery.state is State.VERIFYING
    records_per_s = sum(b.records_per_s for b in beats if b.state != "done") if is_working else 0.0
    done, whole = sum(b.verified_offsets for b in beats), sum(b.offsets_to_verify for b in beats)
    progress = replaced(
        recovery.progress,
        records_per_s=records_per_s,
        bytes_per_s=sum(b.bytes_per_s for b in beats if b.state != "done") if is_working else 0.0,
        eta_seconds=max(0, whole - done) / records_per_s if records_per_s > 0 else None,
        verified_records=sum(b.verified_records for b in beats),
        verified_bytes=sum(b.verified_bytes for b in beats),
        verified_offsets=done,
        offsets_to_verify=whole,
    )
    return replaced(recovery, progress=progress)


def _with_newer(rows: tuple[PartitionProgress, ...], told: Iterable[LanePosition]) -> tuple[PartitionProgress, ...]:
    """With what the lane tells of its partitions: of many lanes each tells of a few. A lane repeats its positions until
    its next commit; then the rows are the same object.
    """
    places = {row.partition: place for place, row in enumerate(rows)}
    newer = list(rows)
    for position in told:
        if (place := places.get(position.partition)) is not None:
            newer[place] = _newer(rows[place], position)
    return tuple(newer) if any(map(is_not, newer, rows)) else rows


def _newer(row: PartitionProgress, told: LanePosition) -> PartitionProgress:
    if told.position < row.position or (row.stop is not None and told.position > row.stop):
        return row
    if told.position == row.position and told.state == row.state and told.copied == row.copied:
        return row  # most have not moved since the last heartbeat
    return PartitionProgress(
        row.partition,
        told.position,
        row.stop,
        told.state,
        told.copied,
        told.filtered,
        told.skipped,
        told.lost,
        told.bytes,
    )


def with_ledger(recovery: Recovery, ledger: Iterable[LedgerPartition]) -> Recovery:
    """Fold in exact positions and counts. No lane runs any more, so rates become 0."""
    proved = {p.partition: p for p in ledger}
    rows = []
    for row in recovery.progress.partitions:
        exact = proved.get(row.partition)
        if exact is None:
            rows.append(row)
            continue
        at_rest = "stopped" if recovery.state is State.STOPPING else "paused"
        state = "done" if row.stop is not None and exact.position >= row.stop else at_rest
        rows.append(
            PartitionProgress(
                row.partition,
                exact.position,
                row.stop,
                state,
                exact.copied,
                exact.filtered,
                exact.skipped,
                exact.lost,
                exact.bytes,
            )
        )
    following = recovery.plan is not None and recovery.plan.is_following
    lag = recovery.progress.lag_records if following else sum(max(0, (r.stop or 0) - r.position) for r in rows)
    idle = replace(recovery.progress, partitions=tuple(rows), lag_records=lag, records_per_s=0.0, bytes_per_s=0.0)
    return replace(recovery, progress=idle)


def says_the_same(recovery: Recovery, told: Recovery | None) -> bool:
    """Whether it equals `told`, apart from rates (the sentence shows those that matter) and the sequence of a renewed
    lease.
    """
    if told is None:
        return False
    now = recovery.progress
    progress = replace(
        told.progress, records_per_s=now.records_per_s, bytes_per_s=now.bytes_per_s, eta_seconds=now.eta_seconds
    )
    return recovery == replace(told, progress=progress, directive_sequence=recovery.directive_sequence)


def describe_rate(recovery: Recovery, workers: int) -> str:
    """One sentence about rate and time left: `2 lanes copy at 41.2 MB/s, 12 s left`, `2 tasks compare at 80.1 MB/s, 61
    %, 4 s left`.
    """
    progress = recovery.progress
    rate = (
        f"{progress.bytes_per_s / 1e6:.1f} MB/s"
        if progress.bytes_per_s >= 1e5
        else f"{progress.bytes_per_s / 1e3:.1f} kB/s"
    )
    left = ""
    if recovery.is_proving:
        whole = progress.offsets_to_verify
        left = f", {progress.verified_offsets / whole:.0%}" if whole else ""
        left += f", {progress.eta_seconds:.0f} s left" if progress.eta_seconds is not None else ""
        return f"{workers} task{'s' if workers != 1 else ''} compare at {rate}{left}"
    if progress.eta_seconds is not None and not (recovery.plan and recovery.plan.is_following):
        left = f", {progress.eta_seconds:.0f} s left"
    elif progress.lag_records is not None:
        left = f", {progress.lag_records:,} records behind the head"
    return f"{workers} lane{'s' if workers != 1 else ''} copy at {rate}{left}"


def progress_ratio(recovery: Recovery) -> float | None:
    """Part of the range that is durable (0 to 1); when following, of what can be read now; for a verification, the part
    it has read. None before there is a plan.
    """
    if recovery.plan is None:
        return None
    if not recovery.spec.copies:
        return verified_ratio(recovery) or 0.0
    stops = {p.partition: p.stop for p in recovery.plan.partitions}
    starts = {p.partition: p.start for p in recovery.plan.partitions}
    at = {p.partition: p.position for p in recovery.progress.partitions}
    done = sum(max(0, at.get(p, start) - start) for p, start in starts.items())
    if recovery.plan.is_following:
        whole = done + (recovery.progress.lag_records or 0)
        return done / whole if whole and recovery.progress.lag_records is not None else 0.0
    whole = sum((stop or 0) - starts[p] for p, stop in stops.items())
    return min(1.0, done / whole) if whole else 1.0


def verified_ratio(recovery: Recovery) -> float | None:
    """Part of the verification that is done (0 to 1), source and target together; 1 once it has a result. None before
    its first heartbeat.
    """
    if recovery.verification is not None and recovery.verification.result != "skipped":
        return 1.0
    done, whole = recovery.progress.verified_offsets, recovery.progress.offsets_to_verify
    return min(1.0, done / whole) if whole else None

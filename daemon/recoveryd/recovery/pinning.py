"""From the bounds of a command to offsets, once: no later step resolves a time or `latest` again. Offsets outside the
log are refused, never clamped.
"""

from collections.abc import Iterable, Sequence

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import RefusedError
from recoveryd.recovery.model import Finding, PlannedPartition, Severity
from recoveryd.recovery.plan_facts import PartitionFacts
from recoveryd.recovery.spec import AtOffset, AtOffsets, AtTime, CaughtUp, Earliest, From, Never, To

_COMPRESSION_MOST = 20  # times: what the log on a disk can hold more than it takes


def selected(topic: str, wanted: Sequence[int] | None, facts: Iterable[PartitionFacts]) -> list[PartitionFacts]:
    """The partitions the command names, or all."""
    known = {p.partition: p for p in facts}
    chosen = wanted if wanted is not None else tuple(sorted(known))
    absent = [p for p in chosen if p not in known]
    if absent:
        raise RefusedError(
            Code.SOURCE_PARTITION_MISSING,
            f"topic {topic} has no partition {absent[0]}; it has {len(known)}",
        )
    return [known[p] for p in sorted(set(chosen))]


def pin(start_at: From, stop_at: To, facts: PartitionFacts, side: str) -> PlannedPartition:
    """The range of one partition; `side` is the field of the command that refusals name, `source` or `target`."""
    start, start_at_end = _start_offset(start_at, facts, f"{side}.from")
    stop, stop_at_end = _stop_offset(stop_at, facts, f"{side}.to")
    if stop is not None and start > stop:
        raise RefusedError(
            Code.RANGE_REVERSED, f"partition {facts.partition}: the range starts at {start}, after its end {stop}"
        )
    held = facts.high_watermark - facts.log_start
    end = facts.high_watermark if stop is None else stop
    share = max(0.0, (end - start) / held) if held > 0 else 0.0
    stored = None if facts.bytes_on_disk is None else round(facts.bytes_on_disk * share)
    return PlannedPartition(
        partition=facts.partition,
        start=start,
        stop=stop,
        at_end=start_at_end or stop_at_end,
        high_watermark=facts.high_watermark,
        log_start=facts.log_start,
        bytes_at_most=_bytes_at_most(facts, max(0, end - start), stored),
        stored_bytes=stored,
        first_ms=facts.first_ms,
        last_ms=facts.last_ms,
    )


def _bytes_at_most(facts: PartitionFacts, offsets: int, stored: int | None) -> int:
    """Of so many offsets as lanes count them: as in the sample, at least what they take on the disk, and no more than
    compression can have saved of that. A few records of a compacted log may be far denser than the rest.
    """
    sampled = round((facts.bytes_per_offset or 0.0) * offsets)
    return sampled if stored is None else max(stored, min(sampled, _COMPRESSION_MOST * stored))


def check_topic(bound: From | To, topic: str, topic_id: str, field: str) -> None:
    """Refuse offsets that are meant for another topic of this name: they mean nothing here."""
    if isinstance(bound, AtOffsets) and bound.topic_id not in {"", topic_id}:
        raise RefusedError(
            Code.TOPIC_RECREATED, f"{field}: the offsets are of an earlier {topic}, which was deleted and created again"
        )


def cut_back(bound: From | To, offset: int, facts: PartitionFacts) -> str:
    """The sentence that a log ends before an offset that it once held, since it was noted with the topic's id, or "".
    Once the log has grown past it, this cannot be seen any more, and what lies before it then is not what was.
    """
    if not isinstance(bound, AtOffsets) or not bound.topic_id or offset <= facts.high_watermark:
        return ""
    end = facts.high_watermark
    return f"partition {facts.partition} ends at {end}, before offset {offset}, where it goes on: the log was cut back"


def offsets_in(partition: PlannedPartition) -> int:
    end = partition.high_watermark if partition.stop is None else partition.stop
    return max(0, end - partition.start)


def range_findings(
    partitions: Iterable[PlannedPartition], facts: Iterable[PartitionFacts], waits: str
) -> list[Finding]:
    """Findings about the pinned range itself. `waits`: the words that say what happens while a transaction is open."""
    findings = []
    at_end = [p.partition for p in partitions if p.at_end]
    if at_end:
        findings.append(
            Finding(
                "time_at_end",
                Severity.INFO,
                f"no record is as new as the time given in partitions {listed(at_end)}: resolved to the end",
            )
        )
    held = [p.partition for p in facts if p.last_stable < p.high_watermark]
    if held:
        findings.append(
            Finding(
                "open_transaction",
                Severity.WARN,
                f"an open transaction holds the end of partitions {listed(held)}; {waits}",
            )
        )
    return findings


def listed(partitions: list[int]) -> str:
    shown = ", ".join(str(p) for p in partitions[:10])
    return f"{shown} and {len(partitions) - 10} more" if len(partitions) > 10 else shown


def _start_offset(bound: From, facts: PartitionFacts, field: str) -> tuple[int, bool]:
    if isinstance(bound, Earliest):
        return facts.log_start, False
    if isinstance(bound, AtTime):
        return _time_offset(facts.start_at, facts)
    if isinstance(bound, AtOffsets) and bound.others_earliest and facts.partition not in bound.offsets:
        return facts.log_start, False
    offset = _named_offset(bound, facts, field)
    if why := cut_back(bound, offset, facts):
        raise RefusedError(Code.SOURCE_CUT_BACK, f"{field}: {why}")
    return _inside(offset, facts, field), False


def _stop_offset(bound: To, facts: PartitionFacts, field: str) -> tuple[int | None, bool]:
    if isinstance(bound, CaughtUp | Never):
        return None, False
    if isinstance(bound, AtTime):
        return _time_offset(facts.stop_at, facts)
    if isinstance(bound, AtOffset | AtOffsets):
        return _inside(_named_offset(bound, facts, field), facts, field), False
    return facts.high_watermark, False


def _time_offset(found: int | None, facts: PartitionFacts) -> tuple[int, bool]:
    """The offset for a time bound, and whether it is the end of the log because no record is that new (-1)."""
    if found is None or found < 0:
        return facts.high_watermark, True
    return max(found, facts.log_start), False


def _named_offset(bound: AtOffset | AtOffsets, facts: PartitionFacts, field: str) -> int:
    if isinstance(bound, AtOffset):
        return bound.offset
    if facts.partition not in bound.offsets:
        raise RefusedError(Code.INVALID_VALUE, f"{field}.offsets names no offset for partition {facts.partition}")
    return bound.offsets[facts.partition]


def _inside(offset: int, facts: PartitionFacts, field: str) -> int:
    if not facts.log_start <= offset <= facts.high_watermark:
        raise RefusedError(
            Code.OFFSET_OUTSIDE_LOG,
            (
                f"{field}: offset {offset} of partition {facts.partition} lies outside the log, which holds "
                f"[{facts.log_start}, {facts.high_watermark})"
            ),
        )
    return offset

"""The history checker: reads source, target and receipts of a copy with its own code and judges I1 to I12 of the
guarantees.

It shares no code with the product: not the verifier, the digest, the receipt decoder or murmur2. Tests call
`check_copy`; `check` is the pure half, for a history that was read before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e import invariants, ledger_invariants
from tests.e2e.ledger import Receipt, read_receipts
from tests.e2e.log_reader import Record, offsets, read_log, whole_log
from tests.e2e.matching import match
from tests.e2e.model import Asked, Claims, History, Observed, Violation

INVARIANTS = {
    "I1": invariants.no_loss,
    "I2": invariants.no_duplicate,
    "I3": invariants.no_phantom,
    "I4": invariants.bytes_kept,
    "I5": invariants.headers_kept,
    "I6": invariants.time_kept,
    "I7": invariants.order_kept,
    "I8": invariants.map_honoured,
    "I9": ledger_invariants.chunks_whole,
    "I10": ledger_invariants.receipts_tile,
    "I11": invariants.bound_kept,
    "I12": ledger_invariants.all_explained,
}
_SHOWN_MAX = 20  # per invariant, so that a copy which is wrong everywhere does not give a million lines


@dataclass(frozen=True)
class Snapshot:
    """All that a topic holds: what a read_committed reader sees, and what is stored. Each partition has an entry."""

    visible: Mapping[int, list[Record]]
    stored: Mapping[int, list[Record]]

    def hidden(self) -> list[Record]:
        """The stored records that a reader does not see: aborted, or of an open transaction."""
        seen = {(p, r.offset) for p, records in self.visible.items() for r in records}
        return [r for records in self.stored.values() for r in records if (r.partition, r.offset) not in seen]


def snapshot(
    bootstrap: str, topic: str, starts: Mapping[int, int] | None = None, *, deadline_s: float = 180.0
) -> Snapshot:
    """The topic up to its present ends, from `starts` (default: its log starts)."""
    ranges = {p: ((starts or {}).get(p, begin), end) for p, (begin, end) in whole_log(bootstrap, topic).items()}
    both = (
        read_log(bootstrap, topic, ranges, committed=committed, deadline_s=deadline_s) for committed in (True, False)
    )
    visible, stored = ({p: found.get(p, []) for p in ranges} for found in both)
    return Snapshot(visible, stored)


def check(history: History) -> list[Violation]:
    """All violations, at most 20 per invariant."""
    matching = match(history)
    found: list[Violation] = []
    for judge in INVARIANTS.values():
        found += _first(judge(history, matching))
    return found


def check_copy(
    bootstrap: str,
    source: str,
    target: str,
    receipts_topic: str,
    recovery: str,
    ranges: Mapping[int, tuple[int, int]],
    *,
    status: Mapping[str, Any] | None = None,
    observed: Observed | None = None,
    before: Mapping[int, Sequence[Record]] | None = None,
    bounds: Mapping[int, int] | None = None,
    target_from: Mapping[int, int] | None = None,
    shared_with: Iterable[str] = (),
    source_was: Snapshot | None = None,
    target_was: Snapshot | None = None,
    deadline_s: float = 180.0,
    **asked: Any,
) -> list[Violation]:
    """Violations of one recovery's copy of `ranges` ([from, to) per source partition). Empty = all invariants hold.

    `mapped_partitions`: how many partitions the target had when planned, if it has more now. `status`: the recovery's
    status record. `before`: the visible source records as read before some of them were deleted. `bounds`: pinned stops
    where a recovery ended before them. `target_from`: the ends of the target before the recovery. `shared_with`: other
    recoveries that append to the same target. `source_was`, `target_was`: the topic as it was before it was deleted or
    created again, instead of the present one. The other keywords are fields of `Asked` (mapping, headers_add,
    headers_drop, from_time_ms, to_time_ms, lost, log_append_time, shared).
    """
    source_is = source_was or snapshot(bootstrap, source, deadline_s=deadline_s)
    target_is = target_was or snapshot(bootstrap, target, target_from, deadline_s=deadline_s)
    receipts_partitions = len(offsets(bootstrap, receipts_topic, end=False))
    mapped = asked.pop("mapped_partitions", None) or len(target_is.visible)
    is_shared = bool(asked.pop("shared", False) or tuple(shared_with))
    others = [
        r for other in shared_with for r in read_receipts(bootstrap, receipts_topic, other, deadline_s=deadline_s)
    ]
    return check(
        History(
            asked=Asked(recovery, dict(ranges), target_partitions=mapped, shared=is_shared, **asked),
            source=source_is.visible,
            aborted=source_is.hidden(),
            vanished=_vanished(before or {}, source_is.visible),
            target=_without(target_is.visible, others),
            hidden=frozenset((r.partition, r.offset) for r in target_is.hidden()),
            receipts=read_receipts(bootstrap, receipts_topic, recovery, deadline_s=deadline_s),
            receipts_partitions=receipts_partitions,
            status=status,
            observed=observed,
            bounds=dict(bounds or {}),
        )
    )


def _first(violations: Iterable[Violation]) -> list[Violation]:
    found: list[Violation] = []
    for violation in violations:
        if len(found) == _SHOWN_MAX:
            return [*found, Violation(violation.invariant, "and more")]
        found.append(violation)
    return found


def _vanished(before: Mapping[int, Sequence[Record]], now: Mapping[int, Sequence[Record]]) -> list[Record]:
    left = {(p, r.offset) for p, records in now.items() for r in records}
    return [r for records in before.values() for r in records if (r.partition, r.offset) not in left]


def _without(target: Mapping[int, list[Record]], others: Sequence[Receipt]) -> dict[int, list[Record]]:
    """The target without the records that receipts of other recoveries claim. Records that no receipt claims stay, so
    that they are judged.
    """
    if not others:
        return dict(target)
    claims = Claims(others)
    return {p: [r for r in records if claims.of(p, r.offset) is None] for p, records in target.items()}

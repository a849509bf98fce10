"""Logs that begin behind the place where a group is to begin: retention goes on between the time at which its offsets
are set and the time at which its application reads. A reader finds such a place out of range, goes on where its
`auto.offset.reset` says, and nobody hears of what it left out.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.facts import Committed
from recoveryd.workflows.model.workflow import OffsetUndo, Undo

Gone = Mapping[tuple[str, int], tuple[int, int]]  # by topic and partition, [from, to)
Starts = Mapping[str, Mapping[int, int]]
Standing = Mapping[str, Mapping[int, Committed]]

# In the evidence of a start: the logs were looked at when its first member had joined. What goes later may have been
# read before, and is looked for only where it is known that the application has not read yet.
JOINED: Final = "has_joined"
# In the evidence of a start that is asked for once more: what was started before may have read some of it.
RAN: Final = "has_run"
_NAMED_MOST: Final = 5


def find_passed(
    rows: Iterable[Undo], topics: Collection[str], starts: Starts, standing: Standing | None = None
) -> Gone:
    """By place, from where the group is to read to where its log begins, of those that are gone. `standing`: where it
    is committed by now, which counts where that is further on.
    """
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for row in rows:
        if not isinstance(row, OffsetUndo) or row.was_set is None or row.name not in topics:
            continue
        start = starts.get(row.name, {}).get(row.partition, 0)
        now = (standing or {}).get(row.name, {}).get(row.partition)
        at = row.was_set if now is None else max(row.was_set, now.offset)
        if at < start:
            found[row.name, row.partition] = (at, start)
    return found


def count_of(gone: Gone) -> int:
    """At most so many records: offsets of transactions and of what was compacted are none."""
    return sum(start - at for at, start in gone.values())


def refuse_passed(gone: Gone, reader: str, may_lack: int | None, more: str = "") -> Refused | None:
    """`may_lack`: so many may be gone, None = nobody was asked whether some may."""
    count = count_of(gone)
    if count <= (may_lack or 0):
        return None
    places = [f"{topic} {p} [{at}, {start})" for (topic, p), (at, start) in sorted(gone.items())]
    others = f" and {len(places) - _NAMED_MOST} more" if len(places) > _NAMED_MOST else ""
    code = Code.OFFSET_OUTSIDE_LOG if may_lack is None else Code.INPUT_INCOMPLETE
    return Refused(
        code,
        f"up to {count:,} records went from the inputs after the offsets were set, and before {reader} was seen to read them: "
        f"{', '.join(places[:_NAMED_MOST])}{others}{more}",
    )


def told_passed(gone: Gone, reader: str) -> str:
    """Of those that were accepted. Empty = none."""
    count = count_of(gone)
    return f"up to {count:,} more records are gone, which was accepted: {reader} begins behind them" if count else ""

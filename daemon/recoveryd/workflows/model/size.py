"""How much one workflow may change: its plan and what it takes to undo it are one status record, which has to stay in
what the status topic takes and every reader reads.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import ID_MOST
from recoveryd.kernel.refused import Refused
from recoveryd.units.facts import Committed
from recoveryd.workflows.model.facts import GroupFound
from recoveryd.workflows.model.positions import PartitionLook
from recoveryd.workflows.model.workflow import OffsetUndo, Workflow

RECORD_BYTES_MOST: Final = 6_000_000  # of the 8 MiB that the topic takes
ENDED_BYTES_MOST: Final = (
    100_000_000  # of what ended workflows noted together, of which a daemon holds a few times as much
)
COPY_BYTES_MOST: Final = 1_000_000  # of the 1 MiB that a command may have
TOPIC_MOST: Final = 249  # characters of a topic's name
_COPY_ROW_BYTES: Final = 47  # two offsets and what stands between them
_ROW_BYTES: Final = 280  # of a change and its undo in JSON, apart from names and metadata
_PINNED_BYTES: Final = 125  # of each partition of each of two groups, in what an upgrade pins
_CUT_BYTES: Final = 155  # of each partition of a cut, and in what copies it


def named_after(topic: str, end: str) -> str:
    """The name of a topic that belongs to another. Of one too long for that, its hash stands for what is cut off, so
    that those of two topics that begin alike are not the same.
    """
    if len(topic) + len(end) <= TOPIC_MOST:
        return topic + end
    mark = f".{hashlib.sha256(topic.encode()).hexdigest()[:12]}"
    return topic[: TOPIC_MOST - len(mark) - len(end)] + mark + end


def refuse_copy(target: str, partitions: Iterable[int]) -> Refused | None:
    """Of a topic that a replay is to copy, whose command has to be one that the daemon takes: its target, and the
    partitions whose offsets the command names.
    """
    if target.startswith("_"):
        message = f"{target} is an internal topic by its name, to which recoveryd copies nothing"
        return Refused(Code.INTERNAL_TOPIC, message)
    if len(target) > TOPIC_MOST:
        message = f"{target} would be longer than a topic's name can be"
        return Refused(Code.INVALID_VALUE, message, "Choose a shorter name.")
    size = sum(_COPY_ROW_BYTES + 3 * len(str(partition)) for partition in partitions)
    if size <= COPY_BYTES_MOST:
        return None
    message = f"the command that copies to {target} would have {size / 1e6:.1f} MB, at most {COPY_BYTES_MOST / 1e6:.0f} MB are taken"
    return Refused(Code.TOO_MANY_CHANGES, message, "Copy some of the partitions after the other.")


def refuse_id(workflow: str, ends: str) -> Refused | None:
    """Of a workflow that begins others, whose ids are its own with an end behind it: `ends` is the longest."""
    most = ID_MOST - len(ends)
    if len(workflow) <= most:
        return None
    message = f"the id {workflow} is {len(workflow)} characters long, and what it begins has it in its id"
    return Refused(Code.INVALID_SUBJECT, message, f"Choose an id of at most {most} characters.")


def refuse_size(
    group: str, looks: Iterable[PartitionLook], committed: Mapping[str, Mapping[int, Committed]]
) -> Refused | None:
    """Before anything is changed. What is committed counts with its metadata, of which a group may write 4 KB each."""
    there = list(looks)
    return _refuse_bytes(len(there), _bytes_of(group, there, committed))


def refuse_sizes(found: Iterable[tuple[str, GroupFound]], of_cut: int = 0) -> Refused | None:
    """Of several groups by name, all noted by one workflow, which also pins where each partition is stopped, copied and
    read.
    `of_cut`: so many partitions of a cut are noted beside them.
    """
    size, count = _CUT_BYTES * of_cut, of_cut
    for group, each in found:
        committed = each.group.committed if each.group is not None else {}
        size += _bytes_of(group, each.looks, committed) + _PINNED_BYTES * len(each.looks)
        count += len(each.looks)
    return _refuse_bytes(count, size)


def noted_bytes(workflow: Workflow) -> int:
    """An estimate of what grows with its partitions in its record: changes, what it takes to undo them, and its cut."""
    changes = 0 if workflow.plan is None else len(workflow.plan.changes)
    metadata = sum(len(row.metadata) for row in workflow.undo if isinstance(row, OffsetUndo))
    pinned = 0 if workflow.cut is None else sum(len(topic.stops) for topic in workflow.cut.topics)
    return _ROW_BYTES * max(changes, len(workflow.undo)) + metadata + _CUT_BYTES * pinned


def refuse_cut(partitions: int) -> Refused | None:
    """Of a savepoint, before anything is changed: of each partition it notes where it is cut, and from where to where
    it is copied.
    """
    return _refuse_bytes(partitions, _CUT_BYTES * partitions, "Rely on its inputs: `reprocess` needs no savepoint.")


def _bytes_of(group: str, looks: Iterable[PartitionLook], committed: Mapping[str, Mapping[int, Committed]]) -> int:
    size = 0
    for look in looks:
        entry = committed.get(look.topic, {}).get(look.partition)
        size += (
            _ROW_BYTES
            + len(group)
            + 2 * len(look.topic)
            + (len(json.dumps(entry.metadata)) if entry is not None else 0)
        )
    return size


_IN_PARTS: Final = "Send one command for some of the topics after the other (`topics`)."


def _refuse_bytes(count: int, size: int, hint: str = _IN_PARTS) -> Refused | None:
    if size <= RECORD_BYTES_MOST:
        return None
    message = (
        f"{count:,} partitions need {size / 1e6:.1f} MB to be noted, and one workflow takes "
        f"{RECORD_BYTES_MOST / 1e6:.0f} MB"
    )
    return Refused(Code.TOO_MANY_CHANGES, message, hint)

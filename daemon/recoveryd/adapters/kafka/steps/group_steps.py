"""Steps that wait for consumer groups: are they empty, have they started as was meant, have they read everything.
Nothing is set here (`offset_steps`).
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_consumer, problem
from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.steps.members import not_empty, told
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S, is_before, offset_in
from recoveryd.adapters.kafka.steps.reporting import report
from recoveryd.adapters.kafka.steps.start_looks import StartLooks, passed_while_restoring
from recoveryd.adapters.kafka.streams_state import read_local_state
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.kernel.catalogue import Code
from recoveryd.units.local_state import find_stale
from recoveryd.workflows.model.actions import (
    MEMBERS,
    RESTORING,
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
)
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import OffsetUndo, Undo

_STALE_MOST: Final = 20
_TAIL_S: Final = 5.0  # to find out whether records lie between a commit and the end

_Key = tuple[str, int]


class GroupSteps:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._looks = StartLooks(reach)

    async def await_empty(self, effect: TakeStep, action: AwaitEmpty) -> StepReported:
        members = await self._reach.members(action.cluster, action.group)
        if members:
            return replace(not_empty(effect, action.group, members), evidence={**effect.seen, MEMBERS: len(members)})
        return report(effect, Outcome.DONE, f"the group {action.group} has no members", evidence=effect.seen)

    async def await_stopped(self, effect: TakeStep, action: AwaitStopped) -> StepReported:
        members = await self._reach.members(action.cluster, action.group)
        if not members:
            why = f"{action.unit} is stopped: the group {action.group} has no members"
            return report(effect, Outcome.DONE, why, evidence=effect.seen)
        why = f"stop every instance of {action.unit}: {told(action.group, members)}"
        evidence = {**effect.seen, MEMBERS: len(members)}
        return report(effect, Outcome.NOT_YET, why, members=members, evidence=evidence)

    async def await_started(self, effect: TakeStep, action: AwaitStarted) -> StepReported:
        members = await self._reach.members(action.cluster, action.group)
        if not members:
            why = f"start {action.unit}{action.note}: the group {action.group} has no members yet"
            return report(effect, Outcome.NOT_YET, why)
        otherwise = await self._otherwise(effect, action)
        if otherwise is not None:
            return replace(otherwise, members=members)
        if action.is_told:
            why = (
                f"{told(action.group, members)}: look whether they are of {action.unit}, and `ack` {effect.step}; nobody else "
                "can tell versions with one group apart"
            )
            return report(effect, Outcome.NOT_YET, why, members=members, evidence={MEMBERS: len(members)})
        return report(effect, Outcome.DONE, f"{action.unit} runs: {told(action.group, members)}", members=members)

    async def look_after_start(self, effect: TakeStep, action: AwaitStarted, *, joins: bool) -> StepReported | None:
        """Whether it did not begin as was meant: behind the offsets that were set, or with state of an earlier run.
        None when there is nothing of it to be looked at, or all is well. What is told before its first member joined
        says nothing of it, unless it never `joins`.
        """
        has_to_join = joins and (bool(action.changelogs) or any(_is_set(row) for row in effect.rows))
        if has_to_join and not await self._reach.members(action.cluster, action.group):
            why = f"{action.unit} is started: its group {action.group} has no members yet"
            return report(effect, Outcome.NOT_YET, why, is_under_way=True)
        return await self._otherwise(effect, action)

    async def _otherwise(self, effect: TakeStep, action: AwaitStarted) -> StepReported | None:
        return await self._behind_what_was_set(effect, action) or await self._held_up_by_state(effect, action)

    async def _behind_what_was_set(self, effect: TakeStep, action: AwaitStarted) -> StepReported | None:
        """Read back once more: whoever joins may have a mind of its own about where to begin."""
        rows = [row for row in effect.rows if isinstance(row, OffsetUndo) and _is_set(row)]
        keys = [(row.name, row.partition) for row in rows]
        now = await self._reach.run(
            action.cluster, read_committed, self._reach.clusters[action.cluster], action.group, keys
        )
        behind = [row for row in rows if (at := offset_in(now, row)) is None or at < (row.was_set or 0)]
        if not behind:
            return None
        first = behind[0]
        why = (
            f"{first.name} {first.partition} of {action.group} is at {offset_in(now, first)} after the start, and was set to "
            f"{first.was_set}: somebody else set it, or {action.unit} begins where it likes"
        )
        return report(effect, Outcome.FAILED, why, code=Code.GROUP_CHANGED.value)

    async def _held_up_by_state(self, effect: TakeStep, action: AwaitStarted) -> StepReported | None:
        if not action.changelogs:
            return None
        doing = f"ask what state {action.group} brought along"
        async with connected(self._reach.accesses[action.cluster], "recoveryd-groups", doing, TIMEOUT_S) as client:
            tasks = await read_local_state(client, action.group)
        if tasks is None:
            return report(effect, Outcome.NOT_YET, f"{action.unit} starts: its members join", is_under_way=True)
        if not tasks:
            return None
        stale = find_stale(tasks, await self._reach.run(action.cluster, self._ends, action))
        if not stale:
            return None
        why = f"{action.unit} was started with old local state: {stale[0]}; stop it, delete that state, start it again"
        evidence = {"stale": [str(each) for each in stale[:_STALE_MOST]], "tasks": len(stale)}
        return report(effect, Outcome.NOT_YET, why, evidence=evidence)

    def _ends(self, action: AwaitStarted) -> dict[str, dict[int, int]]:
        """Of changelogs that exist; one that does not exist yet is empty."""
        admin = self._reach.admin(action.cluster)
        shapes = [shape for shape in describe(admin, action.changelogs, TIMEOUT_S).values() if shape is not None]
        return {shape.topic: read_offsets(admin, shape.keys, LATEST, TIMEOUT_S) for shape in shapes}

    async def await_caught_up(self, effect: TakeStep, action: AwaitCaughtUp) -> StepReported:
        properties, admin = self._reach.clusters[action.cluster], self._reach.admin(action.cluster)
        began: list[OffsetUndo] = []
        if action.brings_state:
            starts = await self._looks.starts(action.cluster, action.ends)  # first: what it read since may go
            began = await self._where_it_began(effect, action)
            if (passed := passed_while_restoring(effect, action, began, starts)) is not None:
                return passed
        behind = await self._reach.run(action.cluster, find_behind, properties, admin, action)
        if not behind:
            why = f"{action.group} has read everything up to the ends that were pinned"
            return report(effect, Outcome.DONE, why, evidence={"left": 0})
        left = sum(action.ends[t][p] - at for (t, p), at in behind.items())
        members = await self._reach.members(action.cluster, action.group)
        why = f"{action.group} has at most {left:,} records to read in {len(behind)} partitions"
        why += "" if members else ", and no members"
        evidence: dict[str, object] = {"left": left, "members": len(members)}
        if members and any((row.name, row.partition) in behind for row in began):
            why += "; where it committed nothing since it was started it may still be restoring its state"
            evidence[RESTORING] = True
        return report(effect, Outcome.NOT_YET, why, left=left, evidence=evidence)

    async def _where_it_began(self, effect: TakeStep, action: AwaitCaughtUp) -> list[OffsetUndo]:
        """Places where it stands as it was set, or noted, before it was started: nothing of them was read."""
        rows = [row for row in effect.rows if isinstance(row, OffsetUndo)]
        keys = [(row.name, row.partition) for row in rows]
        properties = self._reach.clusters[action.cluster]
        now = await self._reach.run(action.cluster, read_committed, properties, action.group, keys)
        return [row for row in rows if offset_in(now, row) == (row.was_set if row.is_changed else row.to)]


def find_behind(properties: Properties, admin: AdminClient, action: AwaitCaughtUp) -> dict[_Key, int]:
    """Places with something to be read before their ends, and what is committed there, or where the log begins without
    a commit. Whether records lie behind that is looked up: markers and aborted ones are nothing to be read.
    """
    keys = [(topic, p) for topic, ends in action.ends.items() for p in ends]
    found = read_committed(properties, action.group, keys)
    behind: dict[_Key, int | None] = {}
    for topic, p in keys:
        entry = found.get(topic, {}).get(p)
        if entry is None or entry.offset < action.ends[topic][p]:
            behind[topic, p] = entry.offset if entry is not None else None
    bare: dict[str, list[_Key]] = {}
    for key, at in behind.items():
        if at is None:
            bare.setdefault(key[0], []).append(key)
    for topic, places in bare.items():
        behind |= {(topic, p): at for p, at in read_offsets(admin, places, EARLIEST, TIMEOUT_S).items()}
    left = {(t, p): at for (t, p), at in behind.items() if at is not None and at < action.ends[t][p]}
    return left if _has_records(properties, left, action.ends) else {}


def _is_set(row: Undo) -> bool:
    return isinstance(row, OffsetUndo) and row.was_set is not None


def _has_records(properties: Properties, positions: Mapping[_Key, int], ends: Mapping[str, Mapping[int, int]]) -> bool:
    """Whether a read_committed reader finds a record between a position and the end of its partition; also when that
    cannot be told in time.
    """
    left = dict(positions)
    if not left:
        return False
    consumer = make_consumer(properties, isolation_level="read_committed")
    give_up_s = time.monotonic() + _TAIL_S
    try:
        consumer.assign([TopicPartition(topic, p, at) for (topic, p), at in left.items()])
        while left and time.monotonic() < give_up_s:
            record = consumer.poll(0.2)
            if record is not None and record.error() is None and is_before(record, ends):
                return True
            where = consumer.position([TopicPartition(topic, p) for topic, p in left])
            left = {(w.topic, w.partition): w.offset for w in where if w.offset < ends[w.topic][w.partition]}
    except KafkaException as error:
        raise problem(error, "look for records behind a commit", "Read") from error
    finally:
        consumer.close()
    return bool(left)

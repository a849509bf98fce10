"""Steps about consumer groups: are they empty, where are they, set where they stand, have they read everything.

Offsets are committed by a consumer that never joins the group, which Kafka takes as long as the group has no members, and read back by another one.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_consumer, problem
from recoveryd.adapters.kafka.group_commits import commit_exactly, commit_places, outside_log
from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.raw_requests import Commit, connected
from recoveryd.adapters.kafka.steps.members import not_empty, told
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S, is_before, read_log
from recoveryd.adapters.kafka.steps.reporting import report
from recoveryd.adapters.kafka.streams_state import read_local_state
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.ports import ApplicationControl, ConnectorOffsets
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.control import Desired, Wish
from recoveryd.units.facts import Committed, PartitionEnds
from recoveryd.units.local_state import find_stale
from recoveryd.workflows.model.actions import (
    MEMBERS,
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    SetOffsets,
    TakeSnapshot,
)
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import OffsetUndo, Undo, UndoState

_STALE_MOST: Final = 20
_STABLE_S: Final = 3.0
_TAIL_S: Final = 5.0  # to find out whether records lie between a commit and the end

_Found = Mapping[str, Mapping[int, Committed]]
_Key = tuple[str, int]


class GroupSteps:
    """`control` and `connectors` for offsets that Kafka Connect sets."""

    def __init__(self, reach: Reach, control: ApplicationControl, connectors: ConnectorOffsets | None = None) -> None:
        self._reach = reach
        self._control, self._connectors = control, connectors

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

    async def look_after_start(self, effect: TakeStep, action: AwaitStarted) -> StepReported | None:
        """Whether it did not begin as was meant: behind the offsets that were set, or with state of an earlier run. None
        when there is nothing of it to be looked at, or all is well. What is told before its first member joined says
        nothing of it.
        """
        has_to_join = bool(action.changelogs) or any(_is_set(row) for row in effect.rows)
        if has_to_join and not await self._reach.members(action.cluster, action.group):
            why = f"{action.unit} is started: its group {action.group} has no members yet"
            return report(effect, Outcome.NOT_YET, why)
        return await self._otherwise(effect, action)

    async def _otherwise(self, effect: TakeStep, action: AwaitStarted) -> StepReported | None:
        return await self._behind_what_was_set(effect, action) or await self._held_up_by_state(effect, action)

    async def _behind_what_was_set(self, effect: TakeStep, action: AwaitStarted) -> StepReported | None:
        """Read back once more: whoever joins may have a mind of its own about where to begin."""
        rows = [row for row in effect.rows if isinstance(row, OffsetUndo) and _is_set(row)]
        keys = [(row.name, row.partition) for row in rows]
        now = await self._reach.run(read_committed, self._reach.clusters[action.cluster], action.group, keys)
        behind = [row for row in rows if (at := _at(row, now)) is None or at < (row.was_set or 0)]
        if not behind:
            return None
        first = behind[0]
        why = (
            f"{first.name} {first.partition} of {action.group} is at {_at(first, now)} after the start, and was set to "
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
            return report(effect, Outcome.NOT_YET, f"{action.unit} starts: its members join")
        if not tasks:
            return None
        stale = find_stale(tasks, await self._reach.run(self._ends, action))
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

    async def note(self, effect: TakeStep, action: TakeSnapshot) -> StepReported:
        return await self._reach.run(self._note, effect, action)

    def _note(self, effect: TakeStep, action: TakeSnapshot) -> StepReported:
        properties, admin = self._reach.clusters[action.cluster], self._reach.admin(action.cluster)
        shapes = describe(admin, (*action.topics, *action.end_topics), TIMEOUT_S)
        other = [name for name in action.topic_ids if not _is_planned(shapes[name], action)]
        if other:
            why = f"{', '.join(other)} was deleted, or created again, after the plan was made"
            return report(effect, Outcome.FAILED, why, code=Code.TOPIC_RECREATED.value)
        keys = [k for name in action.topics if (shape := shapes[name]) is not None for k in shape.keys]
        access = self._reach.accesses[action.cluster]
        if action.is_live and action.topic_ids and not _is_stable(properties, action, keys):
            return report(effect, Outcome.NOT_YET, f"a transaction is about to commit offsets of {action.group}")
        found = read_committed(properties, action.group, keys, access=access)
        states = asyncio.run(_transactions(access)) if action.state_topics else {}
        logs = {s.topic: read_log(admin, s, committed=action.is_live) for s in shapes.values() if s is not None}
        is_still = not action.is_live or read_committed(properties, action.group, keys, access=access) == found
        if is_still and action.state_topics:
            behind = _with_open(admin, [s for n in action.state_topics if (s := shapes[n]) is not None], logs)
            is_still = is_settled(action.group, states, is_open=behind) and _is_stable(properties, action, keys, found)
        rows = tuple(_undo_of(action.group, t, p, found.get(t, {}).get(p)) for t, p in keys)
        noted = sum(row.to is not None for row in rows)
        why = f"noted where {action.group} was: {noted} offsets in {len(rows)} partitions"
        evidence = {"offsets": noted, "partitions": len(rows), "is_still": is_still}
        return report(effect, Outcome.DONE, why, evidence=evidence, undo=rows, logs=logs)

    async def await_caught_up(self, effect: TakeStep, action: AwaitCaughtUp) -> StepReported:
        properties, admin = self._reach.clusters[action.cluster], self._reach.admin(action.cluster)
        behind = await self._reach.run(find_behind, properties, admin, action)
        if not behind:
            why = f"{action.group} has read everything up to the ends that were pinned"
            return report(effect, Outcome.DONE, why, evidence={"left": 0})
        left = sum(action.ends[t][p] - at for (t, p), at in behind.items())
        members = await self._reach.members(action.cluster, action.group)
        why = f"{action.group} has at most {left:,} records to read in {len(behind)} partitions"
        why += "" if members else ", and no members"
        return report(effect, Outcome.NOT_YET, why, left=left, evidence={"left": left, "members": len(members)})

    async def set(self, effect: TakeStep, action: SetOffsets) -> StepReported:
        if action.connector and (running := await self._still_runs(effect, action)) is not None:
            return running
        rows = tuple(row for row in effect.rows if isinstance(row, OffsetUndo))
        keys = [(row.name, row.partition) for row in rows]
        before = await self._standing(action, keys)
        foreign = {row for row in rows if not _is_free(row, before)}
        if foreign and not action.is_back:
            first = next(row for row in rows if row in foreign)
            why = f"{first.name} {first.partition} of {action.group} is at {_at(first, before)} and was at {first.to}: somebody else set it"
            return report(effect, Outcome.FAILED, why, code=Code.GROUP_CHANGED.value)
        left = [row for row in rows if row not in foreign and _at(row, before) != _goal(row, is_back=action.is_back)]
        gone = [row for row in left if _goal(row, is_back=action.is_back) is None]
        kept = [row for row in left if _goal(row, is_back=action.is_back) is not None]
        goals = {(row.name, row.partition): _goal(row, is_back=action.is_back) for row in kept}
        wanted = {key: goal for key, goal in goals.items() if goal is not None}
        outside = await self._reach.run(outside_log, self._reach.admin(action.cluster), wanted)
        if outside and not action.is_back:
            return report(effect, Outcome.FAILED, _first_of(outside), code=Code.OFFSET_OUTSIDE_LOG.value)
        try:
            await self._put(action, kept, gone, wanted)
        except ClusterProblem as refused:
            members = await self._members_again(action, refused)
            if not members:
                raise
            return not_empty(effect, action.group, members)
        after = await self._standing(action, keys)
        wrong = [row for row in rows if row not in foreign and _at(row, after) != _goal(row, is_back=action.is_back)]
        if wrong:
            first = wrong[0]
            why = f"{first.name} {first.partition} reads {_at(first, after)} after it was set to {_goal(first, is_back=action.is_back)}"
            raise ClusterProblem(why)
        return _set_report(effect, action, rows, foreign, outside)

    async def _put(
        self,
        action: SetOffsets,
        kept: Sequence[OffsetUndo],
        gone: Sequence[OffsetUndo],
        wanted: Mapping[_Key, int],
    ) -> None:
        """`kept` get an offset, by place in `wanted`, and of `gone` there is none afterwards. Raises `ClusterProblem`."""
        if action.connector:
            ends = {(row.name, row.partition): None for row in gone} | dict(wanted)
            if ends:  # Connect refuses a question for none
                await self._of_connector(action).set_sink_offsets(action.connector, ends)
            return
        if action.is_back:
            commits = [_commit_before(row) for row in kept]
            await self._reach.run(commit_exactly, self._reach.accesses[action.cluster], action.group, commits)
        else:
            places = [TopicPartition(topic, partition, goal) for (topic, partition), goal in wanted.items()]
            await self._reach.run(commit_places, self._reach.clusters[action.cluster], action.group, places)
        if gone:
            await self._delete(action, gone)

    async def _still_runs(self, effect: TakeStep, action: SetOffsets) -> StepReported | None:
        """Connect refuses to set offsets of a connector that is not stopped, as when somebody resumed it meanwhile: it is
        stopped again.
        """
        unit, key = action.connector, f"{effect.workflow}/{effect.step}/{effect.since_ms}"
        found = await self._control.ask(Wish(unit, Desired.STOPPED, effect.workflow, key, effect.since_ms))
        if found.fulfils(Desired.STOPPED):
            return None
        why = f"offsets of {unit} can be set only while it is stopped, and it is {found.state.value}: {found.why}"
        return report(effect, Outcome.NOT_YET, why, evidence=effect.seen)

    async def _standing(self, action: SetOffsets, keys: Sequence[_Key]) -> _Found:
        if not action.connector:
            return await self._reach.run(read_committed, self._reach.clusters[action.cluster], action.group, keys)
        found: dict[str, dict[int, Committed]] = {}
        for (topic, p), offset in (await self._of_connector(action).sink_offsets(action.connector)).items():
            found.setdefault(topic, {})[p] = Committed(offset)
        return found

    def _of_connector(self, action: SetOffsets) -> ConnectorOffsets:
        if self._connectors is None:
            raise ClusterProblem(f"no Kafka Connect is known of {action.connector}", retriable=False)
        return self._connectors

    async def _members_again(self, action: SetOffsets, refused: ClusterProblem) -> tuple[str, ...]:
        """Of a group that came alive between the look at it and the commit."""
        if refused.code is not Code.GROUP_NOT_EMPTY:
            return ()
        return await self._reach.members(action.cluster, action.group)

    async def _delete(self, action: SetOffsets, rows: Iterable[OffsetUndo]) -> None:
        by_topic: dict[str, list[int]] = {}
        for row in rows:
            by_topic.setdefault(row.name, []).append(row.partition)
        doing = f"take offsets of group {action.group} away"
        async with connected(self._reach.accesses[action.cluster], "recoveryd-groups", doing, TIMEOUT_S) as client:
            await client.delete_offsets(action.group, by_topic)


async def _transactions(access: ClientAccess) -> dict[str, str]:
    """The state of each by its id, of those that may be seen."""
    async with connected(access, "recoveryd-commits", "ask for open transactions", TIMEOUT_S) as client:
        return {name: state for name, _producer, state in await client.transactions()}


def _with_open(
    admin: AdminClient, shapes: Iterable[TopicShape], logs: Mapping[str, Mapping[int, PartitionEnds]]
) -> bool:
    """Whether something lies behind the ends that were read up to: of a transaction that is open, or is being ended."""
    return any(
        end > logs[shape.topic][p].high_watermark
        for shape in shapes
        for p, end in read_offsets(admin, shape.keys, LATEST, TIMEOUT_S).items()
    )


def _is_stable(properties: Properties, action: TakeSnapshot, keys: Sequence[_Key], found: _Found | None = None) -> bool:
    """Whether no transaction is about to commit other offsets, or has just done so, where `found` was read before: its
    state may have been seen before.
    """
    try:
        now = read_committed(properties, action.group, keys, _STABLE_S, stable=True)
    except ClusterProblem:
        return False
    return found is None or _numbers(now) == _numbers(found)


def _numbers(found: _Found) -> dict[str, dict[int, int]]:
    return {topic: {p: entry.offset for p, entry in there.items()} for topic, there in found.items()}


def is_settled(group: str, states: Mapping[str, str], *, is_open: bool) -> bool:
    """Whether every transaction of which the offsets are seen is seen in the state as well: `states`, by transactional id,
    were asked for in between. One that is being ended may be seen in one of both only; one that is open is in neither.
    """
    own = [state for name, state in states.items() if name.startswith(f"{group}-")]
    return not is_open or (bool(own) and not any(state.startswith("Prepare") for state in own))


def find_behind(properties: Properties, admin: AdminClient, action: AwaitCaughtUp) -> dict[_Key, int]:
    """Places with something to be read before their ends, and what is committed there, or where the log begins without a
    commit. Whether records lie behind that is looked up: markers and aborted ones are nothing to be read.
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


def _undo_of(group: str, topic: str, partition: int, found: Committed | None) -> OffsetUndo:
    if found is None:
        return OffsetUndo(topic, partition, None, group=group)
    return OffsetUndo(
        topic, partition, found.offset, metadata=found.metadata, leader_epoch=found.leader_epoch, group=group
    )


def _at(row: OffsetUndo, found: _Found) -> int | None:
    entry = found.get(row.name, {}).get(row.partition)
    return None if entry is None else entry.offset


def _is_set(row: Undo) -> bool:
    return isinstance(row, OffsetUndo) and row.was_set is not None


def _goal(row: OffsetUndo, *, is_back: bool) -> int | None:
    return row.to if is_back else row.was_set


def _is_free(row: OffsetUndo, found: _Found) -> bool:
    """Whether it is as it was before this step, or done already."""
    return _at(row, found) in {row.to, row.was_set}


def _commit_before(row: OffsetUndo) -> Commit:
    assert row.to is not None
    return row.name, row.partition, row.to, -1 if row.leader_epoch is None else row.leader_epoch, row.metadata


def _first_of(told: Sequence[str]) -> str:
    return told[0] + (f", and {len(told) - 1} more" if len(told) > 1 else "")


def _is_planned(shape: TopicShape | None, action: TakeSnapshot) -> bool:
    return shape is not None and action.topic_ids.get(shape.topic, shape.topic_id) == shape.topic_id


def _set_report(
    effect: TakeStep,
    action: SetOffsets,
    rows: Sequence[OffsetUndo],
    foreign: Collection[OffsetUndo],
    outside: Sequence[str],
) -> StepReported:
    count = len(rows) - len(foreign)
    if not action.is_back:
        why = f"{count} offsets of {action.group} are set, and were read back"
        return report(effect, Outcome.DONE, why, evidence={"offsets": count})
    done = tuple(replace(row, state=UndoState.KEPT if row in foreign else UndoState.DONE) for row in rows)
    why = f"{count} offsets of {action.group} are as they were before"
    if foreign:
        why += f"; {len(foreign)} were changed by somebody else since, and stay"
    if outside:
        why += f"; records that lay there are gone: {_first_of(outside)}"
    evidence = {"offsets": count, "kept": len(foreign), "outside_log": len(outside)}
    return report(effect, Outcome.DONE, why, evidence=evidence, undo=done)


def _has_records(properties: Properties, positions: Mapping[_Key, int], ends: Mapping[str, Mapping[int, int]]) -> bool:
    """Whether a read_committed reader finds a record between a position and the end of its partition; also when that cannot be told in time."""
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

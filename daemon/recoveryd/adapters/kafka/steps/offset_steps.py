"""Steps about where consumer groups stand: note it, and set it.

Offsets are committed by a consumer that never joins the group, which Kafka takes as long as the group has no members,
and read back by another one.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties
from recoveryd.adapters.kafka.group_commits import commit_exactly, commit_places, outside_log
from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.offsets import LATEST, read_offsets
from recoveryd.adapters.kafka.raw_groups import Commit
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.steps.came_back import CameBack
from recoveryd.adapters.kafka.steps.gathering import Gatherer
from recoveryd.adapters.kafka.steps.members import not_empty
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S, offset_in, read_log
from recoveryd.adapters.kafka.steps.reporting import not_done, report, still_untried, untried
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.ports import ApplicationControl, ConnectorOffsets
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.control import Desired, Wish
from recoveryd.units.facts import Committed, PartitionEnds
from recoveryd.workflows.model.actions import MOVED, WERE_GONE, SetOffsets, TakeSnapshot
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.facts import WantedFacts
from recoveryd.workflows.model.workflow import OffsetUndo, UndoState

_STABLE_S: Final = 3.0
COMMIT_S: Final = 6.0  # Kafka's consumers commit each 5 s when nothing else is said

_Found = Mapping[str, Mapping[int, Committed]]
_Key = tuple[str, int]


class OffsetSteps:
    """`control` and `connectors` for offsets that Kafka Connect sets."""

    def __init__(
        self, reach: Reach, gatherer: Gatherer, control: ApplicationControl, connectors: ConnectorOffsets | None = None
    ) -> None:
        self._reach = reach
        self._gatherer = gatherer
        self._control, self._connectors = control, connectors
        self._came_back = CameBack(reach)

    async def note(self, effect: TakeStep, action: TakeSnapshot) -> StepReported:
        """Of one that stands still: long after it was stopped somebody may have started it again, also while it is
        noted.
        """
        if (there := await self._who_is_there(effect, action)) is not None:
            return there
        if action.looks_twice and (moving := await self._who_commits(effect, action)) is not None:
            return moving
        told = await self._reach.run(action.cluster, self._note, effect, action)
        if told.outcome is not Outcome.DONE:
            return told
        return await self._who_is_there(effect, action) or await self._with_unit(told, action)

    async def _with_unit(self, told: StepReported, action: TakeSnapshot) -> StepReported:
        """Asked for last: what was made after the ends were read is told rather than left out."""
        if not action.unit:
            return told
        wanted = WantedFacts(units=(action.unit,), with_readers=False)
        return replace(told, found=await self._gatherer.gather(wanted))

    async def _who_is_there(self, effect: TakeStep, action: TakeSnapshot) -> StepReported | None:
        if not _stands_still(action):
            return None
        members = await self._reach.members(action.cluster, action.group)
        return not_empty(effect, action.group, members, is_tried=True) if members else None

    async def _who_commits(self, effect: TakeStep, action: TakeSnapshot) -> StepReported | None:
        """Somebody who is no member of the group can be told only by what is committed for it."""
        before = _numbers(await self._reach.run(action.cluster, self._committed, action))
        await asyncio.sleep(COMMIT_S)
        after = _numbers(await self._reach.run(action.cluster, self._committed, action))
        moved = [(t, p) for t, there in after.items() for p, at in there.items() if before.get(t, {}).get(p) != at]
        if not moved:
            return None
        if members := await self._reach.members(action.cluster, action.group):
            return not_empty(effect, action.group, members, is_tried=True)
        topic, p = moved[0]
        was, now = before.get(topic, {}).get(p, "no commit"), after[topic][p]
        why = (
            f"{topic} {p} of {action.group} went from {was} to {now} while the group has no members: stop the consumer "
            "that commits for it and was assigned its partitions"
        )
        return report(effect, Outcome.NOT_YET, why)

    def _committed(self, action: TakeSnapshot) -> _Found:
        shapes = describe(self._reach.admin(action.cluster), action.topics, TIMEOUT_S)
        keys = _keys_of(action.topics, shapes)
        properties, access = self._reach.clusters[action.cluster], self._reach.accesses[action.cluster]
        return read_committed(properties, action.group, keys, access=access)

    def _note(self, effect: TakeStep, action: TakeSnapshot) -> StepReported:
        properties, admin = self._reach.clusters[action.cluster], self._reach.admin(action.cluster)
        shapes = describe(admin, (*action.topics, *action.end_topics), TIMEOUT_S)
        if others := _others(shapes, action.topic_ids):
            return _created_again(effect, others, "the plan was made")
        keys = _keys_of(action.topics, shapes)
        access = self._reach.accesses[action.cluster]
        has_to_be_stable = action.is_stable or (action.is_live and action.topic_ids)
        if has_to_be_stable and not _is_stable(properties, action, keys):
            return report(effect, Outcome.NOT_YET, f"a transaction is about to commit offsets of {action.group}")
        found = read_committed(properties, action.group, keys, access=access)
        states = asyncio.run(_transactions(access)) if action.state_topics else {}
        logs = {s.topic: read_log(admin, s, committed=action.is_live) for s in shapes.values() if s is not None}
        is_compared = action.is_live or _stands_still(action)
        is_still = not is_compared or read_committed(properties, action.group, keys, access=access) == found
        if not is_still and _stands_still(action):
            return report(effect, Outcome.NOT_YET, f"somebody committed for {action.group} while it was noted")
        if is_still and action.state_topics:
            behind = _with_open(admin, [s for n in action.state_topics if (s := shapes[n]) is not None], logs)
            is_still = is_settled(action.group, states, is_open=behind) and _is_stable(properties, action, keys, found)
        rows = tuple(_undo_of(action.group, t, p, found.get(t, {}).get(p)) for t, p in keys)
        noted = sum(row.to is not None for row in rows)
        why = f"noted where {action.group} was: {noted} offsets in {len(rows)} partitions"
        evidence = {"offsets": noted, "partitions": len(rows), "is_still": is_still}
        return report(effect, Outcome.DONE, why, evidence=evidence, undo=rows, logs=logs)

    async def set(self, effect: TakeStep, action: SetOffsets) -> StepReported:
        has_to_stop = bool(action.connector) and not effect.is_look
        if has_to_stop and (running := await self._still_runs(effect, action)) is not None:
            return running
        return await self._set(effect, action)

    async def _set(self, effect: TakeStep, action: SetOffsets) -> StepReported:
        rows = tuple(row for row in effect.rows if isinstance(row, OffsetUndo))
        keys = [(row.name, row.partition) for row in rows]
        try:
            named = dict.fromkeys((*action.topic_ids, *(row.name for row in rows if action.is_back)))
            shapes = await self._reach.run(
                action.cluster, describe, self._reach.admin(action.cluster), named, TIMEOUT_S
            )
            before = await self._standing(action, keys)
        except ClusterProblem as problem:
            return untried(effect, problem)
        others = _others(shapes, action.topic_ids)
        gone = {row for row in rows if action.is_back and not _is_there(row, shapes)}
        foreign = {row for row in rows if row in gone or row.name in others or not _is_free(row, before, action)}
        if foreign and not action.is_back:
            return _somebodys(effect, action, next(row for row in rows if row in foreign), others, before)
        left = [
            row for row in rows if row not in foreign and offset_in(before, row) != _goal(row, is_back=action.is_back)
        ]
        if effect.is_look and left:
            return not_done(effect, f"{len(left)} of {len(rows)} offsets of {action.group}")
        bare = [row for row in left if _goal(row, is_back=action.is_back) is None]
        kept = [row for row in left if _goal(row, is_back=action.is_back) is not None]
        goals = {(row.name, row.partition): _goal(row, is_back=action.is_back) for row in kept}
        wanted = {key: goal for key, goal in goals.items() if goal is not None}
        outside = await self._reach.run(action.cluster, outside_log, self._reach.admin(action.cluster), wanted)
        if outside and not action.is_back:
            return report(effect, Outcome.FAILED, _first_of(outside), code=Code.OFFSET_OUTSIDE_LOG.value)
        try:
            await self._put(action, kept, bare, wanted)
        except ClusterProblem as refused:
            members = await self._members_again(action, refused)
            if not members:
                raise
            return not_empty(effect, action.group, members, is_tried=True)
        after = await self._standing(action, keys)
        wrong = [
            row for row in rows if row not in foreign and offset_in(after, row) != _goal(row, is_back=action.is_back)
        ]
        if wrong:
            first = wrong[0]
            why = f"{first.name} {first.partition} reads {offset_in(after, first)} after it was set to {_goal(first, is_back=action.is_back)}"
            raise ClusterProblem(why)
        lost = [row for row in rows if row not in foreign and _is_lost(row, before)]
        moved = sum(row.name not in others and offset_in(before, row) is not None for row in foreign - gone)
        done = _set_report(effect, action, rows, foreign, outside, lost, moved)
        return await self._came_back.take_away(effect, action, done) if action.gone else done

    async def _put(
        self,
        action: SetOffsets,
        kept: Sequence[OffsetUndo],
        gone: Sequence[OffsetUndo],
        wanted: Mapping[_Key, int],
    ) -> None:
        """`kept` get an offset, by place in `wanted`, and of `gone` there is none afterwards. Raises
        `ClusterProblem`.
        """
        if action.connector:
            ends = {(row.name, row.partition): None for row in gone} | dict(wanted)
            if ends:  # Connect refuses a question for none
                await self._of_connector(action).set_sink_offsets(action.connector, ends)
            return
        if action.is_back:
            commits = [_commit_before(row) for row in kept]
            await self._reach.run(
                action.cluster, commit_exactly, self._reach.accesses[action.cluster], action.group, commits
            )
        else:
            places = [TopicPartition(topic, partition, goal) for (topic, partition), goal in wanted.items()]
            await self._reach.run(
                action.cluster, commit_places, self._reach.clusters[action.cluster], action.group, places
            )
        if gone:
            await self._delete(action, gone)

    async def _still_runs(self, effect: TakeStep, action: SetOffsets) -> StepReported | None:
        """Connect refuses to set offsets of a connector that is not stopped, as when somebody resumed it meanwhile: it
        is stopped again.
        """
        unit, key = action.connector, f"{effect.workflow}/{effect.step}/{effect.since_ms}"
        found = await self._control.ask(Wish(unit, Desired.STOPPED, effect.workflow, key, effect.since_ms))
        if found.fulfils(Desired.STOPPED):
            return None
        why = f"offsets of {unit} can be set only while it is stopped, and it is {found.state.value}: {found.why}"
        return report(effect, Outcome.NOT_YET, why, evidence=still_untried(effect))

    async def _standing(self, action: SetOffsets, keys: Sequence[_Key]) -> _Found:
        if not action.connector:
            return await self._reach.run(
                action.cluster, read_committed, self._reach.clusters[action.cluster], action.group, keys
            )
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


def _stands_still(action: TakeSnapshot) -> bool:
    """Whether what is noted counts as of one moment because nobody is there who could change it."""
    return action.is_stable and not action.is_live


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


def _keys_of(topics: Iterable[str], shapes: Mapping[str, TopicShape | None]) -> list[_Key]:
    """Of the partitions of those that are there."""
    return [key for name in topics if (shape := shapes[name]) is not None for key in shape.keys]


def _numbers(found: _Found) -> dict[str, dict[int, int]]:
    return {topic: {p: entry.offset for p, entry in there.items()} for topic, there in found.items()}


def is_settled(group: str, states: Mapping[str, str], *, is_open: bool) -> bool:
    """Whether every transaction of which the offsets are seen is seen in the state as well: `states`, by transactional
    id, were asked for in between. One that is being ended may be seen in one of both only; one that is open is in
    neither.
    """
    own = [state for name, state in states.items() if name.startswith(f"{group}-")]
    return not is_open or (bool(own) and not any(state.startswith("Prepare") for state in own))


def _undo_of(group: str, topic: str, partition: int, found: Committed | None) -> OffsetUndo:
    if found is None:
        return OffsetUndo(topic, partition, None, group=group)
    return OffsetUndo(
        topic, partition, found.offset, metadata=found.metadata, leader_epoch=found.leader_epoch, group=group
    )


def _goal(row: OffsetUndo, *, is_back: bool) -> int | None:
    return row.to if is_back else row.was_set


def _is_there(row: OffsetUndo, shapes: Mapping[str, TopicShape | None]) -> bool:
    """Whether there is such a partition to go back to: a topic may have gone since, or have fewer of them now."""
    shape = shapes[row.name]
    return shape is not None and row.partition in shape.leaders


def _is_free(row: OffsetUndo, found: _Found, action: SetOffsets) -> bool:
    """Whether it is as it was before this step, or done already. On the way back also where no commit is left in the
    topic that is known: brokers let those of a group expire that has no members for long. What it has read since nobody
    knows.
    """
    at = offset_in(found, row)
    return at in {row.to, row.was_set} or (at is None and action.is_back and row.name in action.topic_ids)


def _is_lost(row: OffsetUndo, found: _Found) -> bool:
    """Whether there was a commit, and none is left that we or somebody else put there."""
    return row.to is not None and not row.is_taken and offset_in(found, row) is None


def _commit_before(row: OffsetUndo) -> Commit:
    assert row.to is not None
    return row.name, row.partition, row.to, -1 if row.leader_epoch is None else row.leader_epoch, row.metadata


def _first_of(told: Sequence[str]) -> str:
    return told[0] + (f", and {len(told) - 1} more" if len(told) > 1 else "")


def _others(shapes: Mapping[str, TopicShape | None], topic_ids: Mapping[str, str]) -> list[str]:
    """Topics that are not those any more whose ids are known."""
    return [name for name, known in topic_ids.items() if (shape := shapes[name]) is None or shape.topic_id != known]


def _created_again(effect: TakeStep, others: Collection[str], since: str) -> StepReported:
    why = f"{', '.join(others)} was deleted, or created again, after {since}"
    return report(effect, Outcome.FAILED, why, code=Code.TOPIC_RECREATED.value)


def _somebodys(
    effect: TakeStep, action: SetOffsets, row: OffsetUndo, others: Collection[str], before: _Found
) -> StepReported:
    """Nothing is set where somebody made the topic again, or moved the group."""
    if row.name in others:
        return _created_again(effect, others, "its offsets were noted")
    why = f"{row.name} {row.partition} of {action.group} is at {offset_in(before, row)} and was at {row.to}: somebody else set it"
    return report(effect, Outcome.FAILED, why, code=Code.GROUP_CHANGED.value)


def _set_report(
    effect: TakeStep,
    action: SetOffsets,
    rows: Sequence[OffsetUndo],
    foreign: Collection[OffsetUndo],
    outside: Sequence[str],
    lost: Collection[OffsetUndo],
    moved: int,
) -> StepReported:
    count = len(rows) - len(foreign)
    if not action.is_back:
        why = f"{count} offsets of {action.group} are set, and were read back"
        return report(effect, Outcome.DONE, why, evidence={"offsets": count})
    done = tuple(replace(row, state=UndoState.KEPT if row in foreign else UndoState.DONE) for row in rows)
    why = f"{count} offsets of {action.group} are as they were before"
    if lost:
        why += f"; {len(lost)} had no commit any more, as after offsets.retention.minutes, and got it back"
    if foreign:
        why += f"; {len(foreign)} were changed by somebody else since, or their topic went or was made again, and are left alone"
    if outside:
        why += f"; records that lay there are gone: {_first_of(outside)}"
    evidence = {"offsets": count, "kept": len(foreign), "outside_log": len(outside)}
    evidence |= {MOVED: moved, WERE_GONE: len(lost)}
    return report(effect, Outcome.DONE, why, evidence=evidence, undo=done)

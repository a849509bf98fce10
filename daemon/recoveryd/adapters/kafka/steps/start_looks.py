"""Looks at the logs of an application's inputs before somebody is asked to start it, and until its first member has
joined, or has restored its state: whether what it is to read first still lies there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.offsets import EARLIEST, read_offsets
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S
from recoveryd.adapters.kafka.steps.reporting import report
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.kernel.refused import Refused
from recoveryd.workflows.model.actions import AwaitCaughtUp, AwaitStarted, LookAtTopics
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.passed import (
    JOINED,
    RAN,
    Gone,
    Standing,
    Starts,
    find_passed,
    refuse_passed,
    told_passed,
)
from recoveryd.workflows.model.workflow import OffsetUndo

_SHOWN_MOST: Final = 20


class StartLook(NamedTuple):
    """`missing`: the report of a start after which something would be left out. `seen`: evidence for the next look."""

    missing: StepReported | None = None
    seen: Mapping[str, object] = MappingProxyType({})
    note: str = ""

    @property
    def is_last(self) -> bool:
        return JOINED in self.seen

    def told_with(self, told: StepReported) -> StepReported:
        """The report on the start itself, with what is to be known of the look."""
        why = f"{told.why}; {self.note}" if self.note and told.outcome is Outcome.DONE else told.why
        return replace(told, why=why, evidence={**told.evidence, **self.seen} if self.seen else told.evidence)


class StartLooks:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def look(self, effect: TakeStep, action: AwaitStarted, *, joins: bool) -> StartLook:
        """Where nobody reads yet, or has only just begun, it counts what was set. What was started before for this
        step, or never `joins` the group, may have committed meanwhile. Raises `ClusterProblem`.
        """
        if not action.inputs or not any(isinstance(row, OffsetUndo) for row in effect.rows):
            return StartLook()
        seen = {name: True for name in (JOINED, RAN) if effect.seen.get(name)}
        if JOINED in seen:
            return StartLook(seen=seen)
        members = await self._reach.members(action.cluster, action.group) if joins else ()
        standing: Standing = {}
        if not joins or RAN in seen:
            keys = [(row.name, row.partition) for row in effect.rows if isinstance(row, OffsetUndo)]
            properties = self._reach.clusters[action.cluster]
            standing = await self._reach.run(action.cluster, read_committed, properties, action.group, keys)
        gone = find_passed(effect.rows, action.inputs, await self.starts(action.cluster, action.inputs), standing)
        more = f"; {action.unit} runs, and goes on where its auto.offset.reset says: stop it" if members else ""
        refused = refuse_passed(gone, action.unit, action.may_lack, more)
        if refused is None:
            return StartLook(seen={**seen, JOINED: True} if members else seen, note=told_passed(gone, action.unit))
        return StartLook(_failed(effect, refused, gone))

    async def still_there(self, effect: TakeStep, action: LookAtTopics) -> StepReported | None:
        """The report on a look at topics in which what was set for a group lies no more. Raises `ClusterProblem`."""
        if not action.group:
            return None
        gone = find_passed(effect.rows, action.topics, await self.starts(action.cluster, action.topics))
        refused = refuse_passed(gone, action.group, None)
        return None if refused is None else _failed(effect, refused, gone)

    async def starts(self, cluster: str, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """Of those that are there. Raises `ClusterProblem`."""
        return await self._reach.run(cluster, self._starts, cluster, tuple(topics))

    def _starts(self, cluster: str, topics: tuple[str, ...]) -> dict[str, dict[int, int]]:
        admin = self._reach.admin(cluster)
        shapes = (shape for shape in describe(admin, topics, TIMEOUT_S).values() if shape is not None)
        return {shape.topic: read_offsets(admin, shape.keys, EARLIEST, TIMEOUT_S) for shape in shapes}


def passed_while_restoring(
    effect: TakeStep, action: AwaitCaughtUp, began: Iterable[OffsetUndo], starts: Starts
) -> StepReported | None:
    """The report on an application that has not come to its inputs yet, and will not find what was set there. `began`:
    where it still stands as it was set, seen after `starts`.
    """
    gone = find_passed(began, action.ends, starts)
    refused = refuse_passed(gone, action.group, None, "; it goes on where its auto.offset.reset says: stop it")
    return None if refused is None else _failed(effect, refused, gone)


def _failed(effect: TakeStep, refused: Refused, gone: Gone) -> StepReported:
    places = [{"topic": t, "partition": p, "from": at, "to": start} for (t, p), (at, start) in sorted(gone.items())]
    evidence = {"gone": places[:_SHOWN_MOST], "partitions": len(places)}
    return report(effect, Outcome.FAILED, refused.message, code=refused.code.value, evidence=evidence)

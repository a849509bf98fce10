"""Workflows on Kafka: one port, behind which each action has its function."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from recoveryd.adapters.kafka.client import Properties
from recoveryd.adapters.kafka.steps.application_steps import ApplicationSteps
from recoveryd.adapters.kafka.steps.config_steps import ConfigSteps
from recoveryd.adapters.kafka.steps.gathering import Gatherer
from recoveryd.adapters.kafka.steps.group_steps import GroupSteps
from recoveryd.adapters.kafka.steps.offset_steps import OffsetSteps
from recoveryd.adapters.kafka.steps.quota_steps import QuotaSteps
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.start_looks import StartLooks
from recoveryd.adapters.kafka.steps.topic_steps import TopicSteps
from recoveryd.adapters.kafka.steps.unit_steps import UnitSteps
from recoveryd.errors import ClusterProblem
from recoveryd.ports import ApplicationControl, ConnectorOffsets
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.model.actions import (
    CHANGES,
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    CreateTopics,
    DeleteTopics,
    LookAtTopics,
    LookAtUnit,
    RecreateTopics,
    SetConfigs,
    SetOffsets,
    SetQuotas,
    TakeSnapshot,
)
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported, WorkflowFacts


class KafkaSteps:
    """`clusters`: librdkafka properties by name, `accesses` the same for what librdkafka cannot say; `units` all that
    the config names.

    What steps do is harmless to do twice: each looks first whether it is done.
    """

    def __init__(
        self,
        clusters: Mapping[str, Properties],
        accesses: Mapping[str, ClientAccess],
        units: Callable[[], Mapping[str, Unit]],
        control: ApplicationControl,
        now_ms: Callable[[], int],
        connectors: ConnectorOffsets | None = None,
    ) -> None:
        self._reach = Reach(clusters, accesses)
        self._units = units
        quotas = QuotaSteps(accesses)
        self._gatherer = Gatherer(self._reach, units, quotas, now_ms)
        self._applications = ApplicationSteps(units, control)
        groups, topics = GroupSteps(self._reach), TopicSteps(self._reach)
        offsets = OffsetSteps(self._reach, self._gatherer, control, connectors)
        self._groups, self._topics, self._starts = groups, topics, StartLooks(self._reach)
        self._under_way: dict[str, asyncio.Task[StepReported]] = {}  # changes, by workflow
        self._takers: Mapping[type, Callable[[TakeStep, Any], Awaitable[StepReported]]] = {
            AwaitEmpty: groups.await_empty,
            AwaitStopped: groups.await_stopped,
            AwaitStarted: self._start,
            TakeSnapshot: offsets.note,
            SetOffsets: offsets.set,
            AwaitCaughtUp: groups.await_caught_up,
            CreateTopics: topics.create,
            DeleteTopics: topics.delete,
            RecreateTopics: topics.recreate,
            LookAtTopics: self._look,
            SetConfigs: ConfigSteps(self._reach).set,
            SetQuotas: quotas.set,
            LookAtUnit: UnitSteps(self._reach, self._gatherer).look,
        }

    async def gather(self, effect: GatherForWorkflow) -> WorkflowFacts:
        """Raises `ClusterProblem`."""
        return WorkflowFacts(effect.workflow, await self._gatherer.gather(effect.wanted), effect.version)

    async def take(self, effect: TakeStep) -> StepReported:
        """Raises `ClusterProblem`."""
        if self._applications.takes(effect.action) and not isinstance(effect.action, AwaitStarted):
            return await self._applications.take(effect)
        if type(effect.action) in CHANGES:
            return await self._change(effect)
        return await self._takers[type(effect.action)](effect, effect.action)

    async def _look(self, effect: TakeStep, action: LookAtTopics) -> StepReported:
        return await self._starts.still_there(effect, action) or await self._topics.look(effect, action)

    async def _start(self, effect: TakeStep, action: AwaitStarted) -> StepReported:
        """Nobody is asked to start an application that would leave something out, and one that has just begun is looked
        at once more.
        """
        joins = self._joins_its_group(action.unit)
        look = await self._starts.look(effect, action, joins=joins)
        if look.missing is not None:
            return look.missing
        told = await self._started(effect, action, joins=joins)
        if told.outcome is Outcome.DONE and not look.is_last:
            look = await self._starts.look(effect, action, joins=joins)
        return look.missing or look.told_with(told)

    async def _started(self, effect: TakeStep, action: AwaitStarted, *, joins: bool) -> StepReported:
        if not self._applications.takes(action):
            return await self._groups.await_started(effect, action)
        told = await self._applications.take(effect)
        if told.outcome is not Outcome.DONE:
            return told
        return await self._groups.look_after_start(effect, action, joins=joins) or told

    async def _change(self, effect: TakeStep) -> StepReported:
        """A change that takes too long is asked for again, while its thread goes on: to begin it a second time, or the
        way back, beside the first would let the one take the work of the other for somebody else's.
        """
        name = effect.workflow
        if name in self._under_way:
            raise ClusterProblem(f"an earlier try of a step of {name} is still under way")
        task = asyncio.ensure_future(self._takers[type(effect.action)](effect, effect.action))
        self._under_way[name] = task
        task.add_done_callback(lambda done: self._forget(name, done))
        return await asyncio.shield(task)

    def _forget(self, name: str, done: asyncio.Task[StepReported]) -> None:
        del self._under_way[name]
        if not done.cancelled():
            done.exception()  # of which nobody hears if it was not waited for any more

    def _joins_its_group(self, name: str) -> bool:
        """A job of Flink commits for its group, and is never a member of it."""
        unit = self._units().get(name)
        return unit is None or unit.kind is not UnitKind.FLINK

    async def close(self) -> None:
        """Calls under way end at their own deadlines."""
        for task in self._under_way.values():
            task.cancel()
        self._reach.close()

"""What a workflow of twelve steps takes, compared with its steps alone: the same decisions and the same questions and
changes on the same broker, without a daemon, its control topic and its journal.

A unit is processed again, with everything that such a run can have. People answer at once, and what they do is not
counted: neither the time until somebody saw that it waits, nor the start of the application.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.bed import KEEP, Bed
from bench.control import ControlWriter, command, encoded
from bench.daemon_process import DaemonProcess, Home, leading
from bench.result import Report, Row, Series
from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.capabilities import make_decider
from recoveryd.kernel.commands import Command, Meta
from recoveryd.kernel.events import BecameLeader, CommandReceived, Event, Tick
from recoveryd.kernel.state import CoreState
from recoveryd.params import params_beside
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import Earliest
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.control import ApplicationState, Wish
from recoveryd.units.control import Report as ControlReport
from recoveryd.units.model import Behaviour, Output, Unit, UnitKind
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.commands import Ack, Reprocess
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy, ReprocessSpec
from recoveryd.workflows.model.workflow import Workflow

NAME = "workflow_steps"
_GOAL_S = 1.0
_STEPS = 12
_PARTITIONS, _RECORDS = 4, 2_000
_CLEAN, _CONFIRM = "clean_local_state", "confirm_output"
_DEADLINE_S = 120.0
_POLL_S = 0.02
_RUN = "alone"


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    turns = 1 if quick else repeat
    ours = [Application(bed) for _ in range(turns)]
    found = Series("s")
    home = Home(bed, "workflow-steps")
    with leading(home, {"units": {app.group: app.config for app in ours}}) as daemon:
        writer = ControlWriter(bed.bootstrap, home.names.control)
        for app in ours:
            whole_s = _by_command(daemon, writer, app)
            alone_s = asyncio.run(_alone(Application(bed)))
            found.add("whole", whole_s)
            found.add("alone", alone_s)
            found.add("own", whole_s - alone_s)
    rows = (
        Row(f"reprocess in {_STEPS} steps", found.sample("whole"), "its steps alone", found.sample("alone")),
        Row("what the workflow adds of its own", found.sample("own"), at_most=_GOAL_S),
    )
    note = "answers of people and the start of the application are not counted; what was set for its time is put back"
    return [Report(f"A workflow of {_STEPS} steps", rows, (note,))]


class Application:
    """An input, an output and a changelog with records, and a group that has read all of it and stands still."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.group = bed.unique("steps-app")
        self.source, self.output = f"{self.group}.in", f"{self.group}.out"
        self.changelog = f"{self.group}-store-changelog"
        producer = Producer({"bootstrap.servers": bed.bootstrap, "linger.ms": 20})
        for topic in (self.source, self.output, self.changelog):
            bed.create(topic, _PARTITIONS, KEEP)
            for number in range(_RECORDS):
                producer.produce(topic, b"v" * 100, str(number), partition=number % _PARTITIONS)
                producer.poll(0)
        if producer.flush(_DEADLINE_S):
            raise RuntimeError("the topics could not be filled")
        with closing(self._consumer()) as consumer:
            self._commit(consumer)

    @property
    def config(self) -> dict[str, Any]:
        return {
            "kind": "group",
            "group": self.group,
            "inputs": [self.source],
            "outputs": {self.output: {"behaviour": "idempotent"}},
            "internal_topics": [self.changelog],
            "stateful": True,
        }

    @property
    def unit(self) -> Unit:
        return Unit(
            self.group, UnitKind.GROUP, "main", self.group, (self.source,), stateful=True,
            outputs={self.output: Output(Behaviour.IDEMPOTENT)}, internal_topics=(self.changelog,),
        )  # fmt: skip

    def start(self) -> Consumer:
        """A member that has joined and has read everything."""
        consumer = self._consumer()
        consumer.subscribe([self.source])
        give_up_s = time.monotonic() + _DEADLINE_S
        while not consumer.assignment():
            if time.monotonic() > give_up_s:
                raise RuntimeError(f"{self.group} has no member")
            consumer.poll(_POLL_S)
        self._commit(consumer)
        return consumer

    def _consumer(self) -> Consumer:
        named = {"group.id": self.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return Consumer({"bootstrap.servers": self.bed.bootstrap, **named})

    def _commit(self, consumer: Consumer) -> None:
        ends = self.bed.ends(self.source, _PARTITIONS)
        consumer.commit(offsets=[TopicPartition(self.source, p, at) for p, at in enumerate(ends)], asynchronous=False)


def _by_command(daemon: DaemonProcess, writer: ControlWriter, app: Application) -> float:
    """Seconds between a command and what it waits for then, added up."""
    run = app.group
    data = {"unit": app.group, "from": "earliest", "outputs": {app.output: "recreate"}, "keep_inputs": True}

    def timed(verb: str, more: dict[str, Any], is_reached: Callable[[dict[str, Any]], bool]) -> float:
        began_s = time.monotonic()
        writer.send([encoded(command(verb, run, more))])
        while not is_reached(status := daemon.status(run) or {}):
            if time.monotonic() - began_s > _DEADLINE_S or status.get("state") in {"failed", "rejected"}:
                raise RuntimeError(f"{run} does not get on: {status.get('why')}")
            time.sleep(_POLL_S)
        return time.monotonic() - began_s

    seconds = timed("reprocess", data, lambda status: _waits_at(status) == _CLEAN)
    with closing(app.start()):
        seconds += timed("ack", {"step": _CLEAN}, lambda status: _waits_at(status) == _CONFIRM)
        seconds += timed("ack", {"step": _CONFIRM}, lambda status: status.get("state") == "completed")
    _check(tuple(step["name"] for step in (daemon.status(run) or {})["steps"]))
    return seconds


def _waits_at(status: dict[str, Any]) -> str | None:
    waiting = status.get("waiting_for")
    return None if waiting is None else str(waiting["step"])


def _check(steps: tuple[str, ...]) -> None:
    """One more puts back what was set for its time."""
    if len(steps) != _STEPS + 1:
        raise RuntimeError(f"these are not {_STEPS} steps and one that puts back: {', '.join(steps)}")


async def _alone(app: Application) -> float:
    """Seconds that the cluster was asked and changed by the same workflow."""
    steps = StepsAlone(app)
    spec = ReprocessSpec(
        app.group, Earliest(), {app.output: OutputChoice(OutputPolicy.RECREATE)}, keep_inputs=True,
    )  # fmt: skip
    await steps.send(lambda meta: Reprocess(meta, spec), lambda flow: _step_waiting(flow) == _CLEAN)
    member = await asyncio.to_thread(app.start)
    try:
        await steps.send(lambda meta: Ack(meta, _CLEAN), lambda flow: _step_waiting(flow) == _CONFIRM)
        await steps.send(lambda meta: Ack(meta, _CONFIRM), lambda flow: flow.state.value == "completed")
    finally:
        await asyncio.to_thread(member.close)
        await steps.close()
    return steps.spent_s


def _step_waiting(flow: Workflow) -> str | None:
    return None if flow.waiting_for is None else flow.waiting_for.step


class StepsAlone:
    """The core and the adapter, one after the other; `spent_s` is what the adapter took."""

    def __init__(self, app: Application) -> None:
        units = {app.group: app.unit}
        properties = {"main": {"bootstrap.servers": app.bed.bootstrap}}
        self._steps = KafkaSteps(
            properties, {"main": ClientAccess(app.bed.bootstrap)}, lambda: units, Nobody(), SystemClock().now_ms
        )
        self._core, self._state, self._offset = make_decider(params_beside(Params(units=units))), CoreState(), 0
        self.spent_s = 0.0
        self._is_leading = False

    async def send(self, make: Callable[[Meta], Command], is_reached: Callable[[Workflow], bool]) -> None:
        if not self._is_leading:
            self._is_leading = True
            await self._feed(BecameLeader(1, "control"))
        self._offset += 1
        meta = Meta(f"c{self._offset}", "//bench", _RUN, "to be measured", f"h{self._offset}")
        await self._feed(CommandReceived(self._offset, _now_ms(), make(meta)))
        give_up_s = time.monotonic() + _DEADLINE_S
        while (flow := self._state.of(WORKFLOWS).get(_RUN)) is None or not is_reached(flow):
            if time.monotonic() > give_up_s or (flow is not None and flow.state.value in {"failed", "rejected"}):
                raise RuntimeError(f"it does not get on: {flow and flow.why}")
            await asyncio.sleep(_POLL_S)
            await self._feed(Tick())

    async def close(self) -> None:
        await self._steps.close()

    async def _feed(self, event: Event) -> None:
        decision = self._core.decide(self._state, event, _now_ms())
        self._state = decision.state
        for effect in decision.effects:
            began_s = time.monotonic()
            match effect:
                case GatherForWorkflow():
                    told: Event = await self._steps.gather(effect)
                case TakeStep():
                    told = await self._steps.take(effect)
                case _:
                    continue
            self.spent_s += time.monotonic() - began_s
            await self._feed(told)


class Nobody:
    """Controls no application: its unit is started by hand."""

    async def look(self, unit: str) -> ControlReport:
        return ControlReport(unit, ApplicationState.UNKNOWN, "it is started by hand")

    async def ask(self, wish: Wish) -> ControlReport:
        return await self.look(wish.unit)

    async def start(self) -> None: ...

    async def close(self) -> None: ...


def _now_ms() -> int:
    return int(time.time() * 1_000)

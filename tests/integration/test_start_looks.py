"""Starts on a real broker whose retention goes on meanwhile: nobody is asked to start an application, and none counts
as started, that would leave records out.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.control import Report, Wish
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.workflows.model.actions import AwaitStarted, LookAtTopics
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.passed import JOINED, RAN
from recoveryd.workflows.model.workflow import OffsetUndo
from tests.integration.step_world import Runs
from tests.integration.test_group_commits import Setter, delete_before

pytestmark = pytest.mark.broker

AT = 7  # of the first partition


class Asked(Runs):
    """Remembers who was asked for."""

    def __init__(self) -> None:
        self.units: list[str] = []

    async def ask(self, wish: Wish) -> Report:
        self.units.append(wish.unit)
        return await super().ask(wish)


class Starts:
    """The start of `app` or `job`, which the daemon controls, or of `manual`, whose group is to begin at 7."""

    def __init__(self, bootstrap: str, unique: str) -> None:
        self.setter, self.control = Setter(bootstrap, unique), Asked()
        kinds = {"app": UnitKind.GROUP, "job": UnitKind.FLINK}
        units = {
            name: Unit(name, kind, "main", self.setter.group, (), control=ControlKind.KUBERNETES)
            for name, kind in kinds.items()
        }
        clusters = {"main": {"bootstrap.servers": bootstrap}}
        accesses = {"main": ClientAccess(bootstrap)}
        self.steps = KafkaSteps(clusters, accesses, lambda: units, self.control, SystemClock().now_ms)

    async def take(self, unit: str, may_lack: int | None = None, **more: Any) -> StepReported:
        setter = self.setter
        action = AwaitStarted("main", setter.group, unit, inputs=(setter.topic,), may_lack=may_lack)
        rows = (OffsetUndo(setter.topic, 0, None, AT, group=setter.group),)
        return await self.steps.take(TakeStep("w", "start_application", 1, action, rows, **more))

    async def lose(self, offset: int) -> None:
        await asyncio.to_thread(delete_before, self.setter, 0, offset)

    async def close(self) -> None:
        await self.steps.close()
        await self.setter.steps.close()


@pytest.fixture
async def starts(bootstrap: str, unique: str) -> AsyncIterator[Starts]:
    made = Starts(bootstrap, unique)
    await asyncio.to_thread(made.setter.fill)
    await asyncio.to_thread(made.setter.commit, 0, AT)
    yield made
    await made.close()


@pytest.mark.parametrize("unit", ["app", "job", "manual"])
@pytest.mark.parametrize(("may_lack", "code"), [(None, Code.OFFSET_OUTSIDE_LOG), (1, Code.INPUT_INCOMPLETE)])
async def test_what_would_leave_records_out_is_not_asked_to_start(
    starts: Starts, unit: str, may_lack: int | None, code: Code
) -> None:
    await starts.lose(9)
    told = await starts.take(unit, may_lack)
    assert (told.outcome, told.code, told.is_retriable) == (Outcome.FAILED, code.value, False), told
    assert f"up to 2 records went from the inputs after the offsets were set, and before {unit} was seen" in told.why
    assert f"{starts.setter.topic} 0 [7, 9)" in told.why
    assert told.evidence["gone"] == [{"topic": starts.setter.topic, "partition": 0, "from": 7, "to": 9}]
    assert starts.control.units == []


@pytest.mark.parametrize("unit", ["app", "manual"])
async def test_what_went_before_the_first_member_joined_is_told_with_the_start(starts: Starts, unit: str) -> None:
    waiting = await starts.take(unit)
    assert waiting.outcome is Outcome.NOT_YET
    await starts.lose(9)
    member = await asyncio.to_thread(starts.setter.member, "classic")
    told = await starts.take(unit, seen=waiting.evidence)
    assert (told.outcome, told.code) == (Outcome.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
    assert f"[7, 9); {unit} runs, and goes on where its auto.offset.reset says: stop it" in told.why
    await asyncio.to_thread(member.close)


@pytest.mark.parametrize("unit", ["app", "manual"])
async def test_what_goes_once_a_member_has_joined_may_have_been_read(starts: Starts, unit: str) -> None:
    member = await asyncio.to_thread(starts.setter.member, "classic")
    told = await starts.take(unit)
    assert (told.outcome, told.evidence[JOINED]) == (Outcome.DONE, True)
    await starts.lose(9)
    assert (await starts.take(unit, seen=told.evidence)).outcome is Outcome.DONE
    await asyncio.to_thread(member.close)


async def test_what_was_accepted_to_go_is_told(starts: Starts) -> None:
    await starts.lose(9)
    assert (await starts.take("manual", 2)).outcome is Outcome.NOT_YET
    member = await asyncio.to_thread(starts.setter.member, "classic")
    told = await starts.take("manual", 2)
    assert told.outcome is Outcome.DONE
    assert "up to 2 more records are gone, which was accepted: manual begins behind them" in told.why
    await asyncio.to_thread(member.close)


async def test_of_what_ran_before_or_never_joins_its_commits_count(starts: Starts) -> None:
    await asyncio.to_thread(starts.setter.commit, 0, 12)
    await starts.lose(9)
    assert (await starts.take("manual")).outcome is Outcome.FAILED
    again = await starts.take("manual", seen={RAN: True})
    assert (again.outcome, again.evidence) == (Outcome.NOT_YET, {RAN: True})
    assert (await starts.take("job")).outcome is Outcome.DONE
    await starts.lose(13)
    assert "[12, 13)" in (await starts.take("manual", seen=again.evidence)).why
    assert "[12, 13)" in (await starts.take("job")).why


async def test_a_look_at_inputs_finds_what_went_and_else_counts_what_lies_there(starts: Starts) -> None:
    setter = starts.setter
    rows = (OffsetUndo(setter.topic, 0, None, AT, group=setter.group),)
    effect = TakeStep("w", "look_at_inputs", 1, LookAtTopics("main", (setter.topic,), setter.group), rows)
    told = await starts.steps.take(effect)
    assert (told.outcome, told.evidence) == (Outcome.DONE, {"offsets": {setter.topic: 40}})
    await starts.lose(8)
    told = await starts.steps.take(effect)
    assert (told.outcome, told.code, "[7, 8)" in told.why) == (Outcome.FAILED, Code.OFFSET_OUTSIDE_LOG.value, True)

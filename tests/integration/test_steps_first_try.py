"""Steps on a real broker at their first try: what is there already is somebody else's, and stays; what was set is read
back; an application counts as started when its first member joined.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import await_topic, delete, describe
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.workflows.model.actions import (
    AwaitStarted,
    CreateTopics,
    RecreateTopics,
    SetConfigs,
    SetQuotas,
    TopicForm,
)
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import ConfigUndo, OffsetUndo, QuotaUndo, TopicUndo, UndoState
from tests.builders.configs import await_configs, set_configs
from tests.builders.history import create_topics
from tests.e2e.processes import wait_for
from tests.integration.step_world import Runs
from tests.integration.test_group_commits import Setter

pytestmark = pytest.mark.broker


@pytest.fixture
async def steps(bootstrap: str, unique: str) -> AsyncIterator[KafkaSteps]:
    kinds = {"app": UnitKind.GROUP, "job": UnitKind.FLINK}
    units = {
        name: Unit(name, kind, "main", f"{unique}group", (), control=ControlKind.KUBERNETES)
        for name, kind in kinds.items()
    }
    made = KafkaSteps(
        {"main": {"bootstrap.servers": bootstrap}},
        {"main": ClientAccess(bootstrap)},
        lambda: units,
        Runs(),
        SystemClock().now_ms,
    )
    yield made
    await made.close()


async def committed(bootstrap: str, unique: str) -> Setter:
    """A group that has committed offset 7 of a topic with records."""
    setter = Setter(bootstrap, unique)
    await asyncio.to_thread(setter.fill)
    await asyncio.to_thread(setter.commit, 0, 7)
    return setter


async def test_a_start_that_was_only_said_is_not_read_back_before_a_member_joined(
    steps: KafkaSteps, bootstrap: str, unique: str
) -> None:
    setter = await committed(bootstrap, unique)
    action = AwaitStarted("main", setter.group, "app")

    def effect(was_set: int) -> TakeStep:
        return TakeStep("w", "start", 1, action, (OffsetUndo(setter.topic, 0, None, was_set, group=setter.group),))

    told = await steps.take(effect(7))
    assert (told.outcome, told.why) == (Outcome.NOT_YET, f"app is started: its group {setter.group} has no members yet")
    nothing_set = await steps.take(TakeStep("w", "start", 1, action))
    assert nothing_set.outcome is Outcome.DONE, "nothing is to be read back"
    member = await asyncio.to_thread(setter.member, "classic")
    assert (await steps.take(effect(7))).outcome is Outcome.DONE
    behind = await steps.take(effect(9))
    assert (behind.outcome, behind.code) == (Outcome.FAILED, Code.GROUP_CHANGED.value)
    await asyncio.to_thread(member.close)
    await setter.steps.close()


async def test_a_job_of_flink_is_started_without_a_member_and_its_offsets_are_read_back(
    steps: KafkaSteps, bootstrap: str, unique: str
) -> None:
    setter = await committed(bootstrap, unique)
    action = AwaitStarted("main", setter.group, "job")

    async def told(was_set: int) -> StepReported:
        rows = (OffsetUndo(setter.topic, 0, None, was_set, group=setter.group),)
        return await steps.take(TakeStep("w", "start", 1, action, rows))

    assert (await told(7)).outcome is Outcome.DONE
    behind = await told(9)
    assert (behind.outcome, behind.code) == (Outcome.FAILED, Code.GROUP_CHANGED.value)
    await setter.steps.close()


async def test_a_config_like_ours_that_was_there_at_the_first_try_is_somebody_elses(
    steps: KafkaSteps, bootstrap: str, unique: str
) -> None:
    admin, topic = AdminClient({"bootstrap.servers": bootstrap}), f"{unique}leased"
    await asyncio.to_thread(create_topics, bootstrap, {topic: 1})
    await asyncio.to_thread(await_topic, admin, topic, 60.0)
    await asyncio.to_thread(set_configs, bootstrap, topic, {"retention.ms": "-1"})
    rows = tuple(
        ConfigUndo(topic, config, None, "-1", is_temporary=True, cluster="main")
        for config in ("retention.ms", "retention.bytes")
    )
    action = SetConfigs("main", {topic: {row.config: "-1" for row in rows}}, is_temporary=True)
    first = await steps.take(TakeStep("w", "keep", 1, action, rows))
    assert first.outcome is Outcome.DONE
    kept = [(row.config, row.state) for row in first.undo if isinstance(row, ConfigUndo)]
    assert kept == [("retention.ms", UndoState.KEPT)]
    again = await steps.take(TakeStep("w", "keep", 2, action, rows))
    assert (again.outcome, again.undo) == (Outcome.DONE, ()), "what an earlier try set is ours"
    back = SetConfigs("main", {topic: {"retention.bytes": None}}, is_temporary=True, is_back=True)
    await steps.take(TakeStep("w", "restore", 1, back, rows[1:]))
    await asyncio.to_thread(await_configs, bootstrap, topic, {"retention.ms": "-1"})


async def test_a_quota_is_read_back_and_one_like_ours_is_somebody_elses(steps: KafkaSteps, unique: str) -> None:
    client = f"{unique}client"
    row = QuotaUndo(client, None, 1_000.5, cluster="main")
    action = SetQuotas("main", {client: 1_000.5})
    first = await steps.take(TakeStep("w", "protect", 1, action, (row,)))
    assert (first.outcome, first.undo) == (Outcome.DONE, ())
    again = await steps.take(TakeStep("w", "protect", 2, action, (row,)))
    assert (again.outcome, again.undo) == (Outcome.DONE, ())
    other = await steps.take(TakeStep("other", "protect", 1, action, (row,)))
    assert [(r.state, r.name) for r in other.undo] == [(UndoState.KEPT, client)]
    back = SetQuotas("main", {client: None}, is_back=True)
    done = await steps.take(TakeStep("w", "restore", 1, back, (row,)))
    assert [r.state for r in done.undo] == [UndoState.DONE]
    third = await steps.take(TakeStep("third", "protect", 1, action, (row,)))
    assert third.undo == (), "it was taken away, and is ours again"
    await steps.take(TakeStep("third", "restore", 1, back, (row,)))


async def test_an_empty_topic_that_was_there_at_the_first_try_is_not_ours(
    steps: KafkaSteps, bootstrap: str, unique: str
) -> None:
    admin, there, new = AdminClient({"bootstrap.servers": bootstrap}), f"{unique}there", f"{unique}new"
    await asyncio.to_thread(create_topics, bootstrap, {there: 1})
    await asyncio.to_thread(await_topic, admin, there, 60.0)
    forms = (TopicForm(there, 1, 1), TopicForm(new, 1, 1))
    refused = await steps.take(TakeStep("w", "stage", 1, CreateTopics("main", forms, is_own=True)))
    assert (refused.outcome, refused.code) == (Outcome.FAILED, Code.TOPIC_CHANGED.value)
    used = await steps.take(TakeStep("w", "create", 1, CreateTopics("main", forms)))
    assert [row.name for row in used.undo] == [new]
    shapes = await asyncio.to_thread(describe, admin, [new], 60.0)
    again = await steps.take(TakeStep("w", "stage", 2, CreateTopics("main", forms[1:], is_own=True)))
    assert again.undo == (TopicUndo(new, None, shapes[new].topic_id, cluster="main"),)  # type: ignore[union-attr]


async def test_a_topic_that_the_plan_saw_is_somebody_elses_also_where_nothing_was_heard_of_the_first_try(
    steps: KafkaSteps, bootstrap: str, unique: str
) -> None:
    admin, there = AdminClient({"bootstrap.servers": bootstrap}), f"{unique}theirs"
    await asyncio.to_thread(create_topics, bootstrap, {there: 1})
    known = (await asyncio.to_thread(await_topic, admin, there, 60.0)).topic_id
    action = CreateTopics("main", (TopicForm(there, 1, 1),))

    async def made_by_us(seen: str) -> list[str]:
        row = TopicUndo(there, seen, state=UndoState.KEPT, cluster="main")
        told = await steps.take(TakeStep("w", "create", 2, action, (row,)))
        assert told.outcome is Outcome.DONE
        return [row.name for row in told.undo]

    assert await made_by_us(known) == []
    assert await made_by_us("another") == [there], "what the plan saw went, and this is not it"


async def test_a_try_that_found_members_changed_nothing_so_that_the_next_one_is_the_first(
    steps: KafkaSteps, bootstrap: str, unique: str
) -> None:
    """What somebody made meanwhile is not taken for ours."""
    setter = Setter(bootstrap, unique)
    await asyncio.to_thread(setter.fill)
    old = (await asyncio.to_thread(await_topic, setter.admin, setter.topic, 60.0)).topic_id
    action = RecreateTopics("main", (TopicForm(setter.topic, 2, 1),), {setter.topic: old}, setter.group)
    member = await asyncio.to_thread(setter.member, "classic")
    first = await steps.take(TakeStep("w", "recreate", 1, action))
    assert (first.outcome, first.members) == (Outcome.NOT_YET, ("busy on 127.0.0.1",))
    await asyncio.to_thread(member.close)
    await asyncio.to_thread(delete, setter.admin, setter.topic, 60.0)
    there = lambda: describe(setter.admin, [setter.topic], 60.0)[setter.topic]  # noqa: E731
    await asyncio.to_thread(wait_for, lambda: there() is None, 60.0)
    await asyncio.to_thread(create_topics, bootstrap, {setter.topic: 2})
    await asyncio.to_thread(await_topic, setter.admin, setter.topic, 60.0)
    second = await steps.take(TakeStep("w", "recreate", 2, action, seen=first.evidence))
    assert (second.outcome, second.code, second.undo) == (Outcome.FAILED, Code.TOPIC_CHANGED.value, ())
    await setter.steps.close()

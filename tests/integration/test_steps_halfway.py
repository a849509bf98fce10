"""Steps on a real broker that fail for good when half of them is done: what they changed until then is in their
report.
"""

import asyncio
from types import ModuleType

import pytest
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.steps import config_steps, quota_steps, topic_steps
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import await_topic, create, delete, describe
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.actions import (
    CreateTopics,
    DeleteTopics,
    RecreateTopics,
    SetConfigs,
    SetQuotas,
    TopicForm,
)
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import ConfigUndo, QuotaUndo, TopicUndo, UndoState
from tests.builders.configs import await_configs, set_configs
from tests.e2e.clients import writer
from tests.e2e.processes import wait_for
from tests.integration.step_world import Topics

pytestmark = pytest.mark.broker


def refuse(monkeypatch: pytest.MonkeyPatch, function: str, name: str) -> None:
    """What the broker says of this topic, and of no other."""
    real = getattr(topic_steps, function)

    def scripted(admin: AdminClient, topic: str, *more: object) -> object:
        if topic == name:
            raise ClusterProblem(f"may not {function} {topic}", code=Code.NOT_AUTHORISED, retriable=False)
        return real(admin, topic, *more)

    monkeypatch.setattr(topic_steps, function, scripted)


def told_of(report: StepReported) -> dict[str, tuple[str | None, str | None, bool]]:
    assert (report.outcome, report.is_retriable) == (Outcome.FAILED, False), report
    return {row.name: (row.to, row.was_set, row.is_gone) for row in report.undo if isinstance(row, TopicUndo)}


async def test_what_an_earlier_try_made_anew_is_told_when_the_next_one_is_somebody_elses(
    steps: KafkaSteps, topics: Topics
) -> None:
    """At a later try too none goes before all were compared."""
    a, b = topics.names
    again = RecreateTopics("main", (TopicForm(a, 1, 1),), {a: topics.ids[a]})
    assert (await steps.take(TakeStep("w", "recreate_topics", 1, again))).outcome is Outcome.DONE
    made = await asyncio.to_thread(topics.there)
    forms = (TopicForm(a, 1, 1), TopicForm(b, 2, 1))  # it has one partition, so it is not the one that is wanted
    action = RecreateTopics("main", forms, {a: topics.ids[a], b: "of-the-plan"})
    told = await steps.take(TakeStep("w", "recreate_topics", 2, action))
    assert (told.code, await asyncio.to_thread(topics.there)) == (Code.TOPIC_CHANGED.value, made)
    assert told_of(told) == {a: (topics.ids[a], made[a], False)}
    assert (made[a] != topics.ids[a], made[b]) == (True, topics.ids[b])


@pytest.mark.parametrize("tries", [1, 2])
async def test_where_one_was_made_again_since_the_plan_none_of_the_others_goes(
    steps: KafkaSteps, topics: Topics, bootstrap: str, tries: int
) -> None:
    """As by an application that came alive between two tries, and wrote there."""
    a, b = topics.names
    producer = writer(bootstrap)
    producer.produce(b, b"x")
    assert await asyncio.to_thread(producer.flush, 60.0) == 0
    action = RecreateTopics("main", (TopicForm(a, 1, 1), TopicForm(b, 1, 1)), {a: topics.ids[a], b: "of-the-plan"})
    told = await steps.take(TakeStep("w", "recreate_topics", tries, action))
    assert (told.code, told_of(told)) == (Code.TOPIC_CHANGED.value, {})
    assert await asyncio.to_thread(topics.there) == topics.ids


@pytest.mark.parametrize("is_back", [False, True])
async def test_one_that_is_made_again_while_others_go_stays(
    steps: KafkaSteps, topics: Topics, monkeypatch: pytest.MonkeyPatch, is_back: bool
) -> None:
    """As by an application that runs again, while this daemon stood still and another one led."""
    a, b = topics.names

    def slow(admin: AdminClient, name: str, timeout_s: float) -> None:
        delete(admin, name, timeout_s)
        if name == a:
            delete(admin, b, timeout_s)
            wait_for(lambda: topics.there()[b] is None, 20.0)
            create(admin, b, 1, 1, {}, timeout_s)
            await_topic(admin, b, 60.0)

    monkeypatch.setattr(topic_steps, "delete", slow)
    told = await steps.take(TakeStep("w", "delete", 1, DeleteTopics("main", topics.ids, is_ours=is_back)))
    there = await asyncio.to_thread(topics.there)
    assert (there[a], there[b] is None) == (None, False)
    assert there[b] != topics.ids[b]
    rows = {row.name: row.state for row in told.undo if isinstance(row, TopicUndo)}
    if is_back:
        assert (told.outcome, rows) == (Outcome.DONE, {a: UndoState.DONE, b: UndoState.KEPT})
    else:
        assert (told.code, told_of(told)) == (Code.TOPIC_CHANGED.value, {a: (topics.ids[a], None, True)})


async def test_what_went_and_could_not_be_made_again_is_told(
    steps: KafkaSteps, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = topics.names
    refuse(monkeypatch, "create", b)
    action = RecreateTopics("main", (TopicForm(a, 1, 1), TopicForm(b, 1, 1)), topics.ids)
    told = await steps.take(TakeStep("w", "recreate_topics", 1, action))
    there = await asyncio.to_thread(topics.known_after, told)
    assert told_of(told) == {a: (topics.ids[a], there[a], False), b: (topics.ids[b], None, True)}
    assert there[b] is None


@pytest.mark.parametrize("is_again", [True, False])
async def test_what_went_is_told_when_the_next_one_may_not_go(
    steps: KafkaSteps, topics: Topics, monkeypatch: pytest.MonkeyPatch, is_again: bool
) -> None:
    a, b = topics.names
    refuse(monkeypatch, "delete", b)
    forms = (TopicForm(a, 1, 1), TopicForm(b, 1, 1))
    action = RecreateTopics("main", forms, topics.ids) if is_again else DeleteTopics("main", topics.ids)
    told = await steps.take(TakeStep("w", "step", 1, action))
    there = await asyncio.to_thread(topics.known_after, told)
    assert there[b] == topics.ids[b]
    assert told_of(told) == {a: (topics.ids[a], there[a], not is_again)}


async def test_a_topic_that_went_at_an_earlier_try_is_told_when_another_one_changed_meanwhile(
    steps: KafkaSteps, topics: Topics
) -> None:
    a, b = topics.names
    await steps.take(TakeStep("w", "delete", 1, DeleteTopics("main", {a: topics.ids[a]})))
    action = DeleteTopics("main", {a: topics.ids[a], b: "of-the-plan"})
    told = await steps.take(TakeStep("w", "delete", 2, action))
    assert told_of(told) == {a: (topics.ids[a], None, True)}


async def test_on_the_way_back_what_went_is_made_again_and_nothing_is_taken_away(
    steps: KafkaSteps, topics: Topics, bootstrap: str
) -> None:
    a, b = topics.names
    await steps.take(TakeStep("w", "delete", 1, DeleteTopics("main", {a: topics.ids[a]})))
    forms = (TopicForm(a, 2, 1, {"cleanup.policy": "compact"}), TopicForm(b, 1, 1))
    told = await steps.take(TakeStep("w", "back", 1, RecreateTopics("main", forms, topics.ids, is_back=True)))
    there = await asyncio.to_thread(topics.known_after, told)
    assert told.outcome is Outcome.DONE
    assert {row.name: (row.to, row.was_set) for row in told.undo} == {  # type: ignore[union-attr]
        a: (topics.ids[a], there[a]), b: (topics.ids[b], None),
    }  # fmt: skip
    assert there[a] is not None
    assert there[b] == topics.ids[b]
    shape = (await asyncio.to_thread(describe, topics.admin, [a], 60.0))[a]
    assert shape is not None
    assert shape.partitions == 2
    await asyncio.to_thread(await_configs, bootstrap, a, {"cleanup.policy": "compact"})


@pytest.mark.parametrize("is_again", [True, False])
async def test_a_topic_that_went_at_a_try_of_which_nothing_was_heard_is_told(
    steps: KafkaSteps, topics: Topics, monkeypatch: pytest.MonkeyPatch, is_again: bool
) -> None:
    a, b = topics.names
    await steps.take(TakeStep("w", "delete", 1, DeleteTopics("main", {a: topics.ids[a]})))
    refuse(monkeypatch, *(("create", a) if is_again else ("delete", b)))
    forms = (TopicForm(a, 1, 1), TopicForm(b, 1, 1))
    action = RecreateTopics("main", forms, topics.ids) if is_again else DeleteTopics("main", topics.ids)
    assert told_of(await steps.take(TakeStep("w", "step", 2, action))) == {a: (topics.ids[a], None, True)}


@pytest.mark.parametrize("is_again", [True, False])
async def test_a_topic_that_is_there_although_it_was_said_to_be_gone_is_told(
    steps: KafkaSteps, topics: Topics, monkeypatch: pytest.MonkeyPatch, is_again: bool
) -> None:
    """Nobody could look at an earlier try."""
    a, _ = topics.names
    refuse(monkeypatch, "delete", a)
    form = TopicForm(a, 1, 1)
    ids = {a: topics.ids[a]}
    action = RecreateTopics("main", (form,), ids) if is_again else DeleteTopics("main", ids)
    said = TopicUndo(a, topics.ids[a], None, is_gone=True, cluster="main")
    told = await steps.take(TakeStep("w", "step", 2, action, (said,)))
    assert told_of(told) == {a: (topics.ids[a], None, False)}


async def test_a_config_like_ours_stays_somebody_elses_when_the_first_try_fails(
    steps: KafkaSteps, topics: Topics, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = topics.names
    await asyncio.to_thread(set_configs, bootstrap, a, {"retention.ms": "-1"})
    rows = tuple(
        ConfigUndo(a, c, None, "-1", is_temporary=True, cluster="main") for c in ("retention.ms", "retention.bytes")
    )

    def silent(*_: object) -> None:
        raise ClusterProblem("no answer")

    monkeypatch.setattr(config_steps, "change_configs", silent)
    action = SetConfigs("main", {a: {row.config: "-1" for row in rows}}, is_temporary=True)
    told = await steps.take(TakeStep("w", "keep", 1, action, rows))
    assert (told.outcome, told.is_retriable) == (Outcome.FAILED, True)
    kept = [(row.config, row.state) for row in told.undo if isinstance(row, ConfigUndo)]
    assert kept == [("retention.ms", UndoState.KEPT)]


async def test_a_config_like_ours_stays_somebody_elses_when_another_one_was_changed(
    steps: KafkaSteps, topics: Topics, bootstrap: str
) -> None:
    a, b = topics.names
    await asyncio.to_thread(set_configs, bootstrap, a, {"retention.ms": "-1"})
    await asyncio.to_thread(set_configs, bootstrap, b, {"retention.ms": "5000"})
    rows = tuple(ConfigUndo(name, "retention.ms", None, "-1", is_temporary=True, cluster="main") for name in (a, b))
    action = SetConfigs("main", {name: {"retention.ms": "-1"} for name in (a, b)}, is_temporary=True)
    told = await steps.take(TakeStep("w", "keep", 1, action, rows))
    assert (told.outcome, told.code) == (Outcome.FAILED, Code.TOPIC_CHANGED.value)
    assert [(row.name, row.state) for row in told.undo] == [(a, UndoState.KEPT)]
    missing = SetConfigs("main", {**action.configs, f"{a}-gone": {"retention.ms": "-1"}}, is_temporary=True)
    told = await steps.take(TakeStep("w", "keep", 1, missing, rows))
    assert [(row.name, row.state) for row in told.undo] == [(a, UndoState.KEPT)]


def fails_once(monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str) -> None:
    """Nobody answers the first look."""

    def silent(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise ClusterProblem("no answer")

    monkeypatch.setattr(module, function, silent)


async def test_a_first_look_that_failed_is_no_try(
    steps: KafkaSteps, topics: Topics, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So what is like ours at the next one is somebody else's still, and so is an empty topic."""
    a, _ = topics.names
    client, new = f"{a}client", f"{a}new"
    await asyncio.to_thread(set_configs, bootstrap, a, {"retention.ms": "-1"})
    config, quota = (
        ConfigUndo(a, "retention.ms", None, "-1", is_temporary=True, cluster="main"),
        QuotaUndo(client, None, 1_000.0, cluster="main"),
    )
    theirs = SetQuotas("main", {client: 1_000.0})
    await steps.take(TakeStep("other", "protect", 1, theirs, (quota,)))
    looks = (
        (config_steps, "describe", SetConfigs("main", {a: {"retention.ms": "-1"}}, is_temporary=True), (config,)),
        (quota_steps, "connected", theirs, (quota,)),
        (topic_steps, "describe", CreateTopics("main", (TopicForm(a, 1, 1), TopicForm(new, 1, 1))), ()),
    )
    for module, function, action, rows in looks:
        fails_once(monkeypatch, module, function)
        failed = await steps.take(TakeStep("w", "step", 1, action, rows))
        assert (failed.outcome, failed.is_retriable, failed.undo) == (Outcome.FAILED, True, ()), failed
        told = await steps.take(TakeStep("w", "step", 2, action, rows, seen=failed.evidence))
        assert told.outcome is Outcome.DONE
        assert a not in {row.name for row in told.undo if isinstance(row, TopicUndo)}
        assert {row.state for row in told.undo if not isinstance(row, TopicUndo)} <= {UndoState.KEPT}
        assert len(told.undo) == 1
    await steps.take(TakeStep("other", "restore", 1, SetQuotas("main", {client: None}, is_back=True), (quota,)))


@pytest.mark.parametrize("is_last", [True, False])
async def test_a_topic_of_somebody_stays_theirs_when_the_next_one_cannot_be_made(
    steps: KafkaSteps, topics: Topics, monkeypatch: pytest.MonkeyPatch, is_last: bool
) -> None:
    a, _ = topics.names
    new = f"{a}new"
    forms = (TopicForm(new, 1, 1), TopicForm(a, 1, 1)) if is_last else (TopicForm(a, 1, 1), TopicForm(new, 1, 1))
    action = CreateTopics("main", forms)
    refuse(monkeypatch, "create", new)
    failed = await steps.take(TakeStep("w", "create", 1, action))
    assert [(row.name, row.state) for row in failed.undo] == [(a, UndoState.KEPT)]
    monkeypatch.undo()
    told = await steps.take(TakeStep("w", "create", 2, action, failed.undo))
    assert (told.outcome, [row.name for row in told.undo]) == (Outcome.DONE, [new])


async def test_a_quota_like_ours_stays_somebody_elses_when_the_first_try_fails(
    steps: KafkaSteps, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = (QuotaUndo(f"{unique}{name}", None, 1_000.0, cluster="main") for name in ("theirs", "ours"))
    set_theirs = SetQuotas("main", {theirs.name: 1_000.0})
    await steps.take(TakeStep("other", "protect", 1, set_theirs, (theirs,)))

    async def never(*_: object) -> None:
        raise ClusterProblem("it does not come")

    monkeypatch.setattr(quota_steps, "_read_back", never)
    action = SetQuotas("main", {theirs.name: 1_000.0, ours.name: 1_000.0})
    told = await steps.take(TakeStep("w", "protect", 1, action, (theirs, ours)))
    assert (told.outcome, [(r.name, r.state) for r in told.undo]) == (
        Outcome.FAILED, [(theirs.name, UndoState.KEPT)],
    )  # fmt: skip
    monkeypatch.undo()
    for name in (theirs.name, ours.name):
        back = SetQuotas("main", {name: None}, is_back=True)
        await steps.take(TakeStep("w", "restore", 1, back, (theirs if name == theirs.name else ours,)))

"""Tries on a real broker that only look, because somebody holds the topic since: whatever an earlier one did, of which
nothing was heard, is told, and nothing is changed.
"""

import asyncio
from dataclasses import replace

import pytest

from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.actions import (
    Action,
    CreateTopics,
    DeleteTopics,
    RecreateTopics,
    SetConfigs,
    SetOffsets,
    SetQuotas,
    TopicForm,
)
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import ConfigUndo, QuotaUndo, TopicUndo, Undo, UndoState
from tests.builders.configs import own_configs, set_configs
from tests.integration.step_world import Topics
from tests.integration.test_group_commits import Setter

pytestmark = pytest.mark.broker


async def look(steps: KafkaSteps, action: Action, rows: tuple[Undo, ...] = ()) -> StepReported:
    """As after a first try of which nothing was heard."""
    return await steps.take(TakeStep("w", "step", 2, action, rows, is_look=True))


def told(report: StepReported) -> dict[str, tuple[str | None, str | None, bool]]:
    return {row.name: (row.to, row.was_set, row.is_gone) for row in report.undo if isinstance(row, TopicUndo)}


async def test_topics_that_have_to_be_made_are_not(steps: KafkaSteps, topics: Topics, unique: str) -> None:
    a, _ = topics.names
    new = f"{unique}new"
    half = await look(steps, CreateTopics("main", (TopicForm(a, 1, 1), TopicForm(new, 1, 1))))
    assert (half.outcome, new in half.why) == (Outcome.LEFT, True)
    assert told(half) == {a: (None, topics.ids[a], False)}
    topics.names = (*topics.names, new)
    assert (await asyncio.to_thread(topics.there))[new] is None
    whole = await look(steps, CreateTopics("main", (TopicForm(a, 1, 1),)))
    assert (whole.outcome, told(whole)) == (Outcome.DONE, told(half))
    other = await look(steps, CreateTopics("main", (TopicForm(a, 2, 1),)))
    assert (other.outcome, other.code) == (Outcome.FAILED, Code.TOPIC_CHANGED.value)


@pytest.mark.parametrize("is_again", [True, False])
async def test_topics_that_have_to_go_stay(steps: KafkaSteps, topics: Topics, is_again: bool) -> None:
    a, b = topics.names
    forms = {name: TopicForm(name, 1, 1) for name in topics.names}

    def action(*names: str) -> Action:
        ids = {name: topics.ids[name] for name in names}
        if is_again:
            return RecreateTopics("main", tuple(forms[name] for name in names), ids, group="nobody")
        return DeleteTopics("main", ids, group="nobody")

    none = await look(steps, action(a, b))
    assert (none.outcome, told(none), await asyncio.to_thread(topics.there)) == (Outcome.LEFT, {}, topics.ids)
    await steps.take(TakeStep("w", "step", 1, DeleteTopics("main", {a: topics.ids[a]})))
    half = await look(steps, action(a, b))
    assert (half.outcome, told(half)) == (Outcome.LEFT, {a: (topics.ids[a], None, True)})
    assert (await asyncio.to_thread(topics.there)) == {a: None, b: topics.ids[b]}
    await steps.take(TakeStep("w", "step", 2, action(a, b)))
    there = await asyncio.to_thread(topics.there)
    whole = await look(steps, action(a, b))
    assert whole.outcome is Outcome.DONE
    assert told(whole) == {name: (topics.ids[name], there[name], not is_again) for name in topics.names}
    assert await asyncio.to_thread(topics.there) == there


@pytest.mark.parametrize("is_again", [True, False])
async def test_a_topic_that_is_there_although_it_was_said_to_be_gone_is_told(
    steps: KafkaSteps, topics: Topics, is_again: bool
) -> None:
    a, _ = topics.names
    ids = {a: topics.ids[a]}
    action = RecreateTopics("main", (TopicForm(a, 1, 1),), ids) if is_again else DeleteTopics("main", ids)
    said = TopicUndo(a, topics.ids[a], None, is_gone=True, cluster="main")
    seen = await look(steps, action, (said,))
    assert (seen.outcome, told(seen)) == (Outcome.LEFT, {a: (topics.ids[a], None, False)})


async def test_on_the_way_back_none_goes_and_none_is_made(steps: KafkaSteps, topics: Topics) -> None:
    a, b = topics.names
    ours = DeleteTopics("main", topics.ids, is_ours=True)
    assert (await look(steps, ours)).outcome is Outcome.LEFT
    assert await asyncio.to_thread(topics.there) == topics.ids
    await steps.take(TakeStep("w", "step", 1, DeleteTopics("main", {a: topics.ids[a]}, is_ours=True)))
    half = await look(steps, ours)
    assert [(row.name, row.state) for row in half.undo] == [(a, UndoState.DONE)]
    again = RecreateTopics("main", (TopicForm(b, 1, 1), TopicForm(a, 1, 1)), topics.ids, is_back=True)
    assert (await look(steps, again)).outcome is Outcome.LEFT
    assert (await asyncio.to_thread(topics.there))[a] is None
    await steps.take(TakeStep("w", "step", 1, again))
    there = await asyncio.to_thread(topics.there)
    whole = await look(steps, again)
    assert (whole.outcome, told(whole)[a]) == (Outcome.DONE, (topics.ids[a], there[a], False))


async def test_of_one_of_ours_that_goes_it_is_still_told_what_was_there_before_it(
    steps: KafkaSteps, topics: Topics
) -> None:
    a, b = topics.names
    rows = tuple(TopicUndo(name, f"{name}-before", topics.ids[name], cluster="main") for name in (a, b))
    other = {a: topics.ids[a], b: "made-by-somebody"}
    filled = DeleteTopics("main", topics.ids, is_ours=True, with_records=True)
    seen = await look(steps, filled, rows)
    assert seen.outcome is Outcome.LEFT
    done = await steps.take(TakeStep("w", "step", 1, replace(filled, topics=other), rows))
    assert done.outcome is Outcome.DONE
    fates = {row.name: (row.to, row.is_gone, row.state) for row in done.undo if isinstance(row, TopicUndo)}
    assert fates == {a: (f"{a}-before", True, UndoState.DONE), b: (None, False, UndoState.KEPT)}
    again = await steps.take(TakeStep("w", "step", 2, filled, rows))
    assert {row.to for row in again.undo if isinstance(row, TopicUndo)} == {f"{a}-before", f"{b}-before"}
    assert await asyncio.to_thread(topics.there) == dict.fromkeys((a, b))


@pytest.mark.parametrize("is_back", [False, True])
async def test_configs_stay(steps: KafkaSteps, topics: Topics, bootstrap: str, is_back: bool) -> None:
    a, b = topics.names
    rows = tuple(ConfigUndo(name, "retention.ms", "1000", "-1", cluster="main") for name in (a, b))
    before, after = ("-1", "1000") if is_back else ("1000", "-1")
    action = SetConfigs("main", {name: {"retention.ms": after} for name in (a, b)}, is_back=is_back)
    for value_of_a, outcome in ((before, Outcome.LEFT), (after, Outcome.LEFT)):
        await asyncio.to_thread(set_configs, bootstrap, a, {"retention.ms": value_of_a})
        await asyncio.to_thread(set_configs, bootstrap, b, {"retention.ms": before})
        assert (await look(steps, action, rows)).outcome is outcome
        assert (await asyncio.to_thread(own_configs, bootstrap, b)) == {"retention.ms": before}
    await asyncio.to_thread(set_configs, bootstrap, b, {"retention.ms": after})
    whole = await look(steps, action, rows)
    assert (whole.outcome, [row.state for row in whole.undo]) == (Outcome.DONE, [UndoState.DONE] * 2 if is_back else [])


async def test_quotas_stay(steps: KafkaSteps, unique: str) -> None:
    client = f"{unique}client"
    row = QuotaUndo(client, None, 1_000.0, cluster="main")
    there, back = SetQuotas("main", {client: 1_000.0}), SetQuotas("main", {client: None}, is_back=True)

    async def outcomes() -> tuple[Outcome, Outcome]:
        return (await look(steps, there, (row,))).outcome, (await look(steps, back, (row,))).outcome

    assert await outcomes() == (Outcome.LEFT, Outcome.DONE)
    await steps.take(TakeStep("w", "protect", 1, there, (row,)))
    assert await outcomes() == (Outcome.DONE, Outcome.LEFT)
    await steps.take(TakeStep("w", "restore", 1, back, (row,)))
    assert await outcomes() == (Outcome.LEFT, Outcome.DONE)


async def test_offsets_stay_also_while_members_commit(bootstrap: str, unique: str) -> None:
    setter = Setter(bootstrap, unique)
    await asyncio.to_thread(setter.fill)
    await asyncio.to_thread(setter.commit, 0, 7, "mine")

    async def outcomes() -> tuple[Outcome, Outcome]:
        made = [SetOffsets("main", setter.group, is_back) for is_back in (False, True)]
        there, back = [await look(setter.steps, action, setter.rows) for action in made]
        return there.outcome, back.outcome

    before = await asyncio.to_thread(setter.committed)
    assert await outcomes() == (Outcome.LEFT, Outcome.DONE)
    assert await asyncio.to_thread(setter.committed) == before
    assert (await setter.set()).outcome is Outcome.DONE
    member = await asyncio.to_thread(setter.member, "classic")
    assert await outcomes() == (Outcome.DONE, Outcome.LEFT)
    await asyncio.to_thread(member.close)
    assert await asyncio.to_thread(setter.committed) == [3, 4]
    await asyncio.to_thread(setter.commit, 0, 5)
    somebodys = await look(setter.steps, SetOffsets("main", setter.group), setter.rows)
    assert (somebodys.outcome, somebodys.code) == (Outcome.FAILED, Code.GROUP_CHANGED.value)
    await setter.steps.close()

"""How much one workflow may change, and that what it may change fits the status topic."""

import json
from bisect import bisect
from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.units.facts import Committed
from recoveryd.wire.bounded_json import MAX_BYTES
from recoveryd.wire.topics import MAX_STATUS_RECORD_BYTES
from recoveryd.workflows.kinds.copies import copy_data
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import ChildRun, RunChildren, TopicForm
from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.facts import GroupFound
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.positions import PartitionLook
from recoveryd.workflows.model.size import (
    ENDED_BYTES_MOST,
    RECORD_BYTES_MOST,
    TOPIC_MOST,
    named_after,
    noted_bytes,
    refuse_copy,
    refuse_cut,
    refuse_size,
    refuse_sizes,
)
from recoveryd.workflows.model.spec import RestoreSpec
from recoveryd.workflows.model.workflow import Change, OffsetUndo, UndoState, WorkflowStep
from recoveryd.workflows.wire.status import WorkflowForm
from tests.workflows.world import GroupWorld

LARGE, GROUP = 2**62, "the-whole-world"
TOPICS = [f"orders-of-the-whole-world-{number:02}" for number in range(20)]


def looks(each: int) -> list[PartitionLook]:
    return [PartitionLook(topic, p, 0, LARGE, LARGE) for topic in TOPICS for p in range(each)]


def commits(each: int, metadata: str) -> dict[str, dict[int, Committed]]:
    return {topic: {p: Committed(LARGE, metadata, 7) for p in range(each)} for topic in TOPICS}


def test_ten_thousand_partitions_with_what_streams_writes_are_taken() -> None:
    assert refuse_size(GROUP, looks(500), commits(500, "AgAAAZQ3fVQA")) is None


def test_an_upgrade_of_two_groups_counts_both_and_what_it_pins() -> None:
    found = [GroupFound(None, tuple(looks(each))) for each in (400, 400)]
    assert refuse_size(GROUP, found[0].looks, {}) is None
    refused = refuse_sizes((GROUP, each) for each in found)
    assert refused is not None
    assert "16,000 partitions" in refused.message
    assert refuse_sizes((GROUP, each) for each in [GroupFound(None, tuple(looks(100)))] * 2) is None


@pytest.mark.parametrize(("each", "metadata"), [(2_000, ""), (100, "x" * 4_096), (100, "\0" * 700)])
def test_more_than_one_record_holds_is_refused_with_the_numbers(each: int, metadata: str) -> None:
    refused = refuse_size(GROUP, looks(each), commits(each, metadata))
    assert refused is not None
    assert refused.code is Code.TOO_MANY_CHANGES
    assert f"{20 * each:,} partitions need" in refused.message


@pytest.mark.parametrize("metadata", ["", "AgAAAZQ3fVQA", "x" * 4_096, '\0€"\\' * 50])
def test_what_is_taken_fits_the_status_topic(metadata: str) -> None:
    """The largest that is taken, with the longest numbers, as it is really written."""
    each = bisect(range(2_000), 0, key=lambda n: refuse_size(GROUP, looks(n), commits(n, metadata)) is not None) - 1
    world = GroupWorld()
    world.reset()
    assert world.workflow.plan is not None
    places = [(topic, p) for topic in TOPICS for p in range(each)]
    changes = tuple(Change("offset", topic, p, LARGE, LARGE) for topic, p in places)
    undo = tuple(OffsetUndo(topic, p, LARGE, LARGE, UndoState.KEPT, metadata, 7, GROUP) for topic, p in places)
    whole = replace(world.workflow, plan=replace(world.workflow.plan, changes=changes), undo=undo)
    size = len(json.dumps(WorkflowForm().write(whole), separators=(",", ":")).encode())
    assert 0.4 * RECORD_BYTES_MOST < size < RECORD_BYTES_MOST + 100_000 < MAX_STATUS_RECORD_BYTES


def large_cut(partitions: int) -> tuple[Cut, WorkflowStep]:
    """A cut of so many partitions, in four topics, and the step that copies it."""
    at = dict.fromkeys(range(partitions // 4), LARGE)
    names = [f"{GROUP}-{number}-changelog" for number in range(4)]
    topics = tuple(
        CutTopic(name, f"copy.{name}", TopicForm(name, len(at), 3), False, at, at, "id", at) for name in names
    )
    runs = tuple(
        ChildRun(f"w1-{name}", "replay", copy_data("main", name, name, dict.fromkeys(at, 0), at)) for name in names
    )
    return Cut("large", "app", "main", GROUP, 0, topics=topics), WorkflowStep("copy_state", RunChildren(runs))


def test_the_largest_savepoint_that_is_taken_fits_the_status_topic() -> None:
    most = bisect(range(100_000), 0, key=lambda n: refuse_cut(n) is not None) - 1
    cut, copy = large_cut(most)
    world = GroupWorld()
    world.reset()
    whole = replace(
        world.workflow,
        cut=cut,
        steps=(copy,),
    )
    size = len(json.dumps(WorkflowForm().write(whole), separators=(",", ":")).encode())
    assert 0.6 * RECORD_BYTES_MOST < size < RECORD_BYTES_MOST + 100_000


def test_the_largest_restore_that_is_taken_fits_the_status_topic() -> None:
    most = bisect(range(100_000), 0, key=lambda n: refuse_sizes([], n) is not None) - 1
    cut, copy = large_cut(most)
    spec = RestoreSpec("large", "app", cut=cut)
    world = GroupWorld()
    world.reset()
    whole = replace(world.workflow, verb=spec.verb, spec=spec, steps=(copy,))
    size = len(json.dumps(WorkflowForm().write(whole), separators=(",", ":")).encode())
    assert 0.6 * RECORD_BYTES_MOST < size < RECORD_BYTES_MOST + 100_000


def test_a_group_that_is_too_large_is_refused_before_anything_is_changed() -> None:
    world = GroupWorld()
    world.metadata = "x" * 3_000_000
    assert (world.reset(), world.answers[-1].code) == ("rejected", Code.TOO_MANY_CHANGES.value)
    assert world.sets == 0


def test_of_ended_workflows_as_many_are_kept_as_they_noted_little() -> None:
    world = GroupWorld()
    world.reset()
    undo = tuple(OffsetUndo("orders", p, 50) for p in range(10_000))
    ended = [replace(world.workflow, id=f"w{n}", updated_ms=world.now_ms + n, undo=undo) for n in range(50)]
    world.state = world.state.having(WORKFLOWS, Workflows.of(ended))
    world.pass_time(2)
    kept = world.state.of(WORKFLOWS).ended
    assert list(kept) == [workflow.id for workflow in ended[15:]]
    assert sum(map(noted_bytes, kept.values())) <= ENDED_BYTES_MOST


def test_a_copy_whose_command_nobody_would_take_is_refused_at_plan_time() -> None:
    assert refuse_copy("orders.w1", range(15_000)) is None
    too_many = refuse_copy("orders.w1", range(20_000))
    assert too_many is not None
    assert too_many.code is Code.TOO_MANY_CHANGES
    codes = [
        refused.code if (refused := refuse_copy(name, ())) else None for name in ("_internal", "x" * 250, "x" * 249)
    ]
    assert codes == [Code.INTERNAL_TOPIC, Code.INVALID_VALUE, None]


def test_topics_that_belong_to_others_have_names_of_their_own_however_long_those_are() -> None:
    assert named_after("orders", ".shadow-w1") == "orders.shadow-w1"
    longest = ["x" * 248 + end for end in "ab"]
    names = [named_after(topic, ".shadow-w1") for topic in longest]
    assert len({*names, *longest}) == 4
    assert {(len(name), name.endswith(".shadow-w1")) for name in names} == {(TOPIC_MOST, True)}


def test_the_largest_copy_that_is_taken_fits_a_command() -> None:
    most = bisect(range(50_000), 0, key=lambda n: refuse_copy("t", range(n)) is not None) - 1
    places = dict.fromkeys(range(most), 2**63 - 1)
    data = {"reason": "x" * 500, **copy_data("main", "s" * 249, "t" * 249, dict.fromkeys(places, 2**63 - 2), places)}
    encoded = json.dumps({"id": "i" * 200, "source": "s" * 500, "data": data}, separators=(",", ":")).encode()
    assert 0.9 * MAX_BYTES < len(encoded) < MAX_BYTES

"""A restore into a real application of Kafka Streams that is rolled back: the offsets of before come back, and the
state of the cut does not stay beside them, which would lack all that lay between the two.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import becomes, waits_at
from tests.e2e.test_savepoint import World, topics_like
from tests.streams.counting import FIRST, LAST, LATER, counts, unit_of
from tests.streams.data import await_table, make_topics, values, write

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]


@pytest.fixture
def world(bootstrap: str, unique: str, tmp_path: Path) -> World:
    made = World(bootstrap, unique, tmp_path / "apps")
    make_topics(bootstrap, {made.input: 2, made.old_counts: 2})
    write(bootstrap, made.input, FIRST, 2)
    return made


@pytest.fixture
def stack(bootstrap: str, world: World, tmp_path: Path) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path / "stack", {"units": {"old": unit_of(world.old.spec)}}) as made:
        made.daemon()
        yield made


def state_topics(world: World) -> set[str]:
    internal = f"{world.old.spec.application_id}-"
    return {name for name in topics_like(world.bootstrap, internal) if name.startswith(internal)}


@pytest.mark.scenario("S-WIKI-3")
def test_the_application_begins_with_empty_state_where_it_stood_before_the_restore(stack: Stack, world: World) -> None:
    with world.old:
        await_table(world.bootstrap, world.old_counts, counts(FIRST))
        stack.control.command("savepoint", "cut", {"reason": "before v2", "unit": "old", "name": "before"})
        waits_at(stack, "cut", "stop_application")
        assert world.old.stop() == 0
        becomes(stack, "cut", "completed")
        world.old.start()
        write(world.bootstrap, world.input, LATER, 2)
        await_table(world.bootstrap, world.old_counts, counts(FIRST + LATER))
        assert world.old.stop() == 0
        data = {"reason": "back", "savepoint": "before", "to_unit": "old", "outputs": {world.old_counts: "append"}}
        stack.control.command("restore_savepoint", "restored", data)
        waits_at(stack, "restored", "clean_local_state")  # its state is filled, and its offsets are those of the cut
        assert state_topics(world)
        stack.control.command("stop", "restored", {"reason": "the wrong one"})
        becomes(stack, "restored", "stopped")
        stack.control.command("rollback", "restored", {"reason": "the wrong one"})
        ended = becomes(stack, "restored", "rolled_back")
        assert "its changelogs are empty: it begins with empty state" in ended["why"]
        wait_for(lambda: state_topics(world) == set(), 20.0)
        before = len(values(world.bootstrap, world.old_counts))
        shutil.rmtree(world.old.state_dir)
        world.old.start()
        write(world.bootstrap, world.input, LAST, 2)
        await_table(world.bootstrap, world.old_counts, counts(FIRST + LATER) | counts(LAST))
        assert len(values(world.bootstrap, world.old_counts)) == before + len(LAST), "nothing is read again"

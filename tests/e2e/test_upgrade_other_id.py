"""`upgrade` of a real application of Kafka Streams to a version with another application id: it takes over offsets and
state, each record is counted once in the output that both write, and the old one comes back.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recoveryd_sandbox.streams_app import StreamsApp
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import ack, waits_at
from tests.streams.counting import FIRST, LAST, LATER, CountingWorld, counts, unit_of
from tests.streams.data import await_table, make_topics, values, write
from tests.streams.describing import described

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]


class World(CountingWorld):
    """`old` and `new` count by key, into the same output."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        super().__init__(bootstrap, prefix, folder, store="counts")
        self.old = self.program("old", self.spec)
        self.new = self.program("new", replace(self.spec, application_id=f"{prefix}next"))
        self.topology = folder / "counts.txt"
        self.topology.write_text(
            described(self.input, self.output, "counts", "AGGREGATE", "KTABLE-TOSTREAM", "MAPVALUES")
        )

    def unit(self, app: StreamsApp) -> dict[str, Any]:
        return unit_of(app.spec, topology=str(self.topology))


@pytest.fixture(scope="module")
def world(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(bootstrap, module_unique, tmp_path_factory.mktemp("apps"))
    make_topics(bootstrap, {made.input: 2, made.output: 2})
    write(bootstrap, made.input, FIRST, 2)
    return made


@pytest.fixture(scope="module")
def stack(bootstrap: str, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    units = {"old": world.unit(world.old), "next": world.unit(world.new)}
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": units}) as made:
        made.daemon()
        yield made


@pytest.mark.scenario("S-WIKI-7")
def test_a_version_with_another_application_id_goes_on_where_the_old_one_stopped_and_the_old_one_comes_back(
    stack: Stack, world: World
) -> None:
    control, follower, bootstrap = stack.control, stack.follower, world.bootstrap
    with world.old:
        await_table(bootstrap, world.output, counts(FIRST))
        control.command("upgrade", "to-next", {"reason": "v2", "unit": "old", "to_unit": "next"})
        waits_at(stack, "to-next", "stop_application")
        assert world.old.stop() == 0
    write(bootstrap, world.input, LATER, 2)
    ack(stack, "to-next-restore", "clean_local_state")
    waits_at(stack, "to-next-restore", "start_application")
    with world.new:
        ack(stack, "to-next-restore", "confirm_output")
        done = follower.wait_state("to-next", "completed", 120.0)
        await_table(bootstrap, world.output, counts(FIRST + LATER))
        assert len(values(bootstrap, world.output)) == len(FIRST) + len(LATER), "each was counted once"
        cut = done["plan"]["version"]["unfixed_range"][world.input]
        assert sum(stop for _, stop in cut.values()) == len(FIRST)

        control.command("rollback", "to-next", {"reason": "v2 is worse"})
        waits_at(stack, "to-next", "stop_new_version")
        assert world.new.stop() == 0
    waits_at(stack, "to-next", "start_old_version")
    write(bootstrap, world.input, LAST, 2)
    with world.old:
        follower.wait_state("to-next", "rolled_back", 240.0)
        await_table(bootstrap, world.output, counts(FIRST + LATER + LAST))
        written = len(FIRST) + 2 * len(LATER) + len(LAST)
        # The table has the new version's results, so it may be whole before the old one has read all partitions.
        wait_for(lambda: len(values(bootstrap, world.output)) >= written, 60.0)
        assert len(values(bootstrap, world.output)) == written, "the old one went on at the cut, as its answer said"

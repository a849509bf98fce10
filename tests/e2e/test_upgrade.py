"""`upgrade` of a real application of Kafka Streams to a version with another topology, on its own state, and back: each
record is processed once, by the version whose turn it was.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recoveryd.units.topology import parse_topology
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import ack, waits_at
from tests.streams.counting import CountingWorld, Pairs, counts, unit_of
from tests.streams.data import await_table, make_topics, values, write
from tests.streams.describing import described

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

NOISE = "noise"


def records(count: int) -> Pairs:
    """Every third is what the new version leaves out."""
    return [(f"k{number % 5}", NOISE if number % 3 == 0 else str(number)) for number in range(count)]


FIRST, LATER, LAST = records(60), records(33), records(21)


def quiet(pairs: Pairs) -> Pairs:
    return [pair for pair in pairs if pair[1] != NOISE]


class World(CountingWorld):
    """Versions `old` and `next` of an application that counts by key; `renamed` is one that would not find its
    counts.
    """

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        super().__init__(bootstrap, prefix, folder, store="counts")
        self.app = self.program("app", self.spec)
        after = ("AGGREGATE", "KTABLE-TOSTREAM", "MAPVALUES")
        self.topologies = {
            "old": described(self.input, self.output, "counts", *after),
            "next": described(self.input, self.output, "counts", "FILTER", *after),
            "renamed": described(self.input, self.output, "numbers", *after),
        }

    def units(self) -> dict[str, Any]:
        made = {}
        for name, text in self.topologies.items():
            path = self.folder / f"{name}.txt"
            path.write_text(text)
            made[name] = unit_of(self.spec, topology=str(path))
        return made

    def start(self, version: str) -> None:
        self.app.spec = replace(self.spec, skip=NOISE if version == "next" else None)
        self.app.start()
        self.is_of(version)

    def is_of(self, version: str) -> None:
        assert parse_topology(self.app.topology_file.read_text()) == parse_topology(self.topologies[version])


@pytest.fixture(scope="module")
def world(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(bootstrap, module_unique, tmp_path_factory.mktemp("app"))
    make_topics(bootstrap, {made.input: 2, made.output: 2})
    write(bootstrap, made.input, FIRST, 2)
    return made


@pytest.fixture(scope="module")
def stack(bootstrap: str, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": world.units()}) as made:
        made.daemon()
        yield made


@pytest.mark.scenario("S-WIKI-7", "S-WIKI-7a", "S-WIKI-7b")
def test_a_version_with_another_topology_goes_on_where_the_old_one_stopped_and_the_old_one_comes_back(
    stack: Stack, world: World
) -> None:
    control, follower = stack.control, stack.follower
    with world.app:
        world.is_of("old")
        await_table(world.bootstrap, world.output, counts(FIRST))
        control.command("upgrade", "wrong", {"reason": "v2", "unit": "old", "to_unit": "renamed"})
        refused = follower.wait_state("wrong", "rejected")
        assert (refused["error_code"], "numbers" in refused["why"]) == ("RCV-2045", True)
        assert world.app.is_running()

        control.command("upgrade", "to-next", {"reason": "v2", "unit": "old", "to_unit": "next"})
        waiting = waits_at(stack, "to-next", "stop_application")
        assert waiting["plan"]["version"]["verdict"] == "compatible"
        assert world.app.stop() == 0
        cut = waits_at(stack, "to-next", "start_application")["plan"]["version"]
        assert sum(stop for _, stop in cut["unfixed_range"][world.input].values()) == len(FIRST)
        (fix,) = cut["fix"]
        control.command("replay", "fixed", {"reason": "is it a plan", **fix, "dry_run": True})
        planned = follower.wait_state("fixed", "planned")["plan"]["source"]["partitions"]
        assert sum(p["stop"] - p["start"] for p in planned) == len(FIRST)

        write(world.bootstrap, world.input, LATER, 2)
        world.start("next")
        ack(stack, "to-next", "start_application")
        follower.wait_state("to-next", "completed", 120.0)
        await_table(world.bootstrap, world.output, counts(FIRST + quiet(LATER)))
        assert len(values(world.bootstrap, world.output)) == len(FIRST) + len(quiet(LATER)), "each was processed once"

        control.command("rollback", "to-next", {"reason": "the noise was no noise"})
        waits_at(stack, "to-next", "stop_new_version")
        assert world.app.stop() == 0
        waits_at(stack, "to-next", "start_old_version")
        write(world.bootstrap, world.input, LAST, 2)
        world.start("old")
        ack(stack, "to-next", "start_old_version")
        follower.wait_state("to-next", "rolled_back", 120.0)
        await_table(world.bootstrap, world.output, counts(FIRST + quiet(LATER) + LAST))
        assert len(values(world.bootstrap, world.output)) == len(FIRST) + len(quiet(LATER)) + len(LAST)

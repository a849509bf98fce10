"""`upgrade` of a real application of Kafka Streams to a version with another application id: it takes over offsets and state, each
record is counted once in the output that both write, and the old one comes back.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recoveryd_sandbox.streams_app import AppSpec, Mode, StreamsApp
from tests.e2e.follower import Document
from tests.e2e.stack import Stack
from tests.streams.data import await_table, make_topics, values, write
from tests.streams.describing import described
from tests.streams.places import SOURCES

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

FIRST = [(f"k{number % 7}", str(number)) for number in range(70)]
LATER = [(f"k{number % 5}", str(number)) for number in range(35)]
LAST = [(f"k{number % 3}", str(number)) for number in range(12)]
UNCACHED = {"statestore.cache.max.bytes": "0", "commit.interval.ms": "200"}


def counts(pairs: list[tuple[str, str]]) -> dict[str, str]:
    return {key: str(sum(k == key for k, _ in pairs)) for key in {k for k, _ in pairs}}


class World:
    """`old` and `new` count by key, into the same output."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.input, self.output = f"{prefix}in", f"{prefix}counts"
        spec = AppSpec(f"{prefix}app", Mode.COUNT, (self.input,), self.output, store="counts", settings=UNCACHED)
        self.old = StreamsApp(folder / "old", bootstrap, spec, SOURCES)
        self.topology = folder / "counts.txt"
        self.topology.write_text(
            described(self.input, self.output, "counts", "AGGREGATE", "KTABLE-TOSTREAM", "MAPVALUES")
        )
        self.new = StreamsApp(folder / "new", bootstrap, replace(spec, application_id=f"{prefix}next"), SOURCES)

    def unit(self, app: StreamsApp) -> dict[str, Any]:
        return {
            "kind": "streams",
            "group": app.spec.application_id,
            "inputs": [self.input],
            "outputs": {self.output: {"behaviour": "append_only"}},
            "topology": str(self.topology),
            "stateful": True,
        }


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


def waits_at(stack: Stack, run: str, step: str) -> Document:
    def look() -> Document | None:
        status = stack.follower.status(run)
        assert status is None or status["state"] not in {"failed", "rejected"}, status["why"]
        waiting = None if status is None else status["waiting_for"]
        return status if waiting is not None and waiting["step"] == step else None

    return stack.follower.wait(look, 240.0, f"{run} waits at {step}") or {}


def ack(stack: Stack, run: str, step: str) -> None:
    waits_at(stack, run, step)
    stack.control.command("ack", run, {"reason": "done", "step": step})


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
        assert len(values(bootstrap, world.output)) == written, "the old one went on at the cut, as its answer said"

"""`upgrade --mode online` of a real application of Kafka Streams while records keep coming: the first try is aborted after the old
version stood still, the second takes over, and in the output each input was counted exactly once, by one of the two.
"""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from recoveryd_sandbox.streams_app import AppSpec, Mode, StreamsApp
from tests.e2e.background import Background
from tests.e2e.clients import writer
from tests.e2e.follower import Document
from tests.e2e.murmur2 import partition_of
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.streams.data import make_topics, values
from tests.streams.places import SOURCES

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

KEYS, PARTITIONS = 5, 2
UNCACHED = {"statestore.cache.max.bytes": "0", "commit.interval.ms": "200"}


class Feeder(Background):
    """Writes to the input all the time; `written` by key."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.bootstrap, self.topic = bootstrap, topic
        self.written = dict.fromkeys((f"k{number}" for number in range(KEYS)), 0)

    def run(self) -> None:
        producer = writer(self.bootstrap)
        for number in itertools.count():
            if self.ended.wait(0.1):
                break
            key = f"k{number % KEYS}"
            producer.produce(self.topic, b"x", key.encode(), partition=partition_of(key.encode(), PARTITIONS))
            producer.poll(0)
            self.written[key] += 1
        assert producer.flush(60.0) == 0


class World:
    """`old`, and `new` as it is started in its three roles."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.input, self.output, self.staged, self.tail = (
            f"{prefix}{name}" for name in ("in", "counts", "staged", "tail")
        )
        spec = AppSpec(
            f"{prefix}app",
            Mode.COUNT,
            (self.input,),
            self.output,
            is_exactly_once=True,
            store="counts",
            settings=UNCACHED,
        )
        self.old = StreamsApp(folder / "old", bootstrap, spec, SOURCES)
        live = replace(spec, application_id=f"{prefix}next")
        staged = replace(live, output=self.staged)
        self.roles = {"next": live, "next-staged": staged, "next-tail": replace(staged, inputs=(self.tail,))}
        self.new = StreamsApp(folder / "new", bootstrap, staged, SOURCES)

    def units(self) -> dict[str, Any]:
        return {
            name: {
                "kind": "streams",
                "group": spec.application_id,
                "inputs": list(spec.inputs),
                "outputs": {spec.output: {"behaviour": "append_only"}},
                "stateful": True,
            }
            for name, spec in {"old": self.old.spec, **self.roles}.items()
        }

    def run_as(self, role: str) -> None:
        self.new.spec = self.roles[role]
        self.new.start()

    def came_out(self) -> dict[str, list[int]]:
        """By key, the counts that readers see, in their order."""
        found: dict[str, list[int]] = {}
        for key, value in values(self.bootstrap, self.output):
            found.setdefault(key, []).append(int(value or 0))
        return found


@pytest.fixture(scope="module")
def world(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(bootstrap, module_unique, tmp_path_factory.mktemp("apps"))
    make_topics(bootstrap, dict.fromkeys((made.input, made.output, made.staged), PARTITIONS))
    return made


@pytest.fixture(scope="module")
def stack(bootstrap: str, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"units": world.units(), "monitor": {"interval": "3s"}}
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), settings) as made:
        made.daemon()
        yield made


def waits_at(stack: Stack, run: str, step: str) -> Document:
    def look() -> Document | None:
        status = stack.follower.status(run)
        assert status is None or status["state"] not in {"failed", "rejected"}, status["why"]
        waiting = None if status is None else status["waiting_for"]
        return status if waiting is not None and waiting["step"] == step else None

    return stack.follower.wait(look, 240.0, f"{run} waits at {step}") or {}


def upgrade_until_the_tail(stack: Stack, world: World, run: str) -> None:
    """Both versions are stopped, and what lies between them is copied."""
    data = {"unit": "old", "to_unit": "next", "mode": "online", "staged_unit": "next-staged", "tail_unit": "next-tail"}
    ready = {"lag_seconds": 30, "hold": "5s"}
    stack.control.command("upgrade", run, {"reason": "v2", **data, "ready": ready})
    starts_as(stack, world, run, "start_beside", "next-staged")
    waits_at(stack, run, "stop_beside")
    assert world.new.stop() == 0
    waits_at(stack, run, "stop_application")
    assert world.old.stop() == 0
    waits_at(stack, run, "start_on_tail")


def starts_as(stack: Stack, world: World, run: str, step: str, role: str) -> None:
    """Nobody else can tell which of the roles it is: all have the same group."""
    waits_at(stack, run, step)
    world.run_as(role)
    stack.control.command("ack", run, {"reason": "it runs", "step": step})


def counted_once(world: World, written: dict[str, int]) -> None:
    """What comes out for a key is 1, 2, 3 and so on: nothing was left out, and nothing is there twice."""
    wanted = {key: list(range(1, count + 1)) for key, count in written.items()}
    wait_for(
        lambda: sum(map(len, world.came_out().values())) >= sum(written.values()),
        30.0,
        lambda: f"wanted {written}, have { {key: len(found) for key, found in world.came_out().items()} }",
    )
    assert world.came_out() == wanted


def topics_of(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60.0).topics)


@pytest.mark.scenario("S-WIKI-8", "S-WIKI-8a")
def test_after_an_abort_the_old_version_goes_on_and_the_next_try_takes_over_with_each_input_counted_once(
    stack: Stack, world: World
) -> None:
    control, follower, bootstrap = stack.control, stack.follower, world.bootstrap
    with ExitStack() as programs:
        programs.callback(world.new.kill)
        programs.enter_context(world.old)
        with Feeder(bootstrap, world.input) as feeder:
            upgrade_until_the_tail(stack, world, "first-try")
            control.command("stop", "first-try", {"reason": "not today"})
            follower.wait_state("first-try", "stopped", 120.0)
            control.command("rollback", "first-try", {"reason": "not today"})
            waits_at(stack, "first-try", "start_old_version")
            world.old.start()
            follower.wait_state("first-try", "rolled_back", 120.0)
            assert world.tail not in topics_of(bootstrap)

            upgrade_until_the_tail(stack, world, "second-try")
            starts_as(stack, world, "second-try", "start_on_tail", "next-tail")
            waits_at(stack, "second-try", "stop_on_tail")
            assert world.new.stop() == 0
            starts_as(stack, world, "second-try", "start_application", "next")
            done = follower.wait_state("second-try", "completed", 240.0)
        counted_once(world, feeder.written)
    assert world.tail not in topics_of(bootstrap)
    cut = done["plan"]["version"]["unfixed_range"][world.input]
    ready = next(step for step in done["steps"] if step["name"] == "await_ready")
    assert ready["evidence"]["held_s"] >= 5
    assert 0 < sum(stop for _, stop in cut.values()) < sum(feeder.written.values()), "both versions wrote"

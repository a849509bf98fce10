"""`upgrade --mode online` of applications of Kafka Streams that the daemon itself stops and starts: exchanges one after
the other while records keep coming, over kills of the daemon. Nobody starts, stops or acknowledges anything between the
first record and the last, and in the output each input was counted once.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.e2e.clients import client, commit
from tests.e2e.exchange import PARTITIONS, Exchange, Feeder, exchange_stack
from tests.e2e.processes import Process, wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import ack, step_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

FIRST, NEXT, LAST = "v1", "v2", "v3"
_EXCHANGED_S = 300.0
_TAKEN = {"running", "waiting", "done"}


class World(Exchange):
    """Each version works in a folder of its own, in whatever role."""

    def units(self) -> dict[str, dict[str, object]]:
        made = super().units()
        for name, unit in made.items():
            folder = self.folder / name.split("-")[0]
            folder.mkdir(parents=True, exist_ok=True)
            start = self.program(folder.name, self.roles[name]).command()
            unit["control"] = {"kind": "process", "start": start, "work_dir": str(folder), "stop_timeout": "10m"}
        return made

    def runs_as(self, process: Process) -> str | None:
        """The unit that a process is, by what it was told on its command line; None for a daemon, say."""
        told = process.command.split(" ")
        for name, spec in self.roles.items():
            wanted = spec.arguments()
            if any(told[at : at + len(wanted)] == wanted for at, word in enumerate(told) if word == wanted[0]):
                return name
        return None

    def running(self, stack: Stack) -> list[str]:
        """The units that run, each as often as it does."""
        return sorted(name for process in stack.processes() if (name := self.runs_as(process)) is not None)


@pytest.fixture
def world(bootstrap: str, unique: str, tmp_path: Path) -> World:
    made = World(bootstrap, unique, tmp_path / "apps", FIRST, NEXT, LAST)
    made.make_topics()
    consumer = Consumer({**client(bootstrap), "group.id": made.spec.application_id})
    commit(consumer, [TopicPartition(made.input, p, 0) for p in range(PARTITIONS)])
    consumer.close()
    return made


@pytest.fixture
def stack(bootstrap: str, world: World, tmp_path: Path) -> Iterator[Stack]:
    with exchange_stack(bootstrap, tmp_path / "stack", world) as made:
        yield made


def first_version_runs(stack: Stack, world: World) -> None:
    """The daemon starts it as it does after any reprocessing; from then on it is the daemon's."""
    data = {"reason": "it never ran", "unit": FIRST, "outputs": {world.output: "append"}}
    stack.control.command("reprocess", "first", data)
    ack(stack, "first", "clean_local_state")
    ack(stack, "first", "confirm_output")
    stack.completed("first", 120.0)
    assert world.running(stack) == [FIRST]


def reaches(stack: Stack, run: str, step: str) -> None:
    stack.follower.wait(lambda: step_of(stack, run, step).get("state") in _TAKEN, _EXCHANGED_S, f"{run} takes {step}")


def began(stack: Stack, run: str) -> list[str]:
    return [event["data"]["step"] for event in stack.follower.events(kind="step_started", subject=run)]


@pytest.mark.scenario("S-WIKI-8", "S-OSO-13")
@pytest.mark.parametrize(
    "exchanges",
    [
        1,
        pytest.param(
            2,
            marks=pytest.mark.wide(
                "tests/e2e/test_upgrade_controlled.py::test_exchanges_count_each_input_once_over_kills_of_the_daemon_and_leave_only_the_newest_version_running"
            ),
        ),
    ],
)
def test_exchanges_count_each_input_once_over_kills_of_the_daemon_and_leave_only_the_newest_version_running(
    stack: Stack, world: World, exchanges: int
) -> None:
    """The daemon is killed in the last exchange."""
    *before, (old, newest) = pairwise(world.versions[: exchanges + 1])
    daemon = stack.daemon("a")
    with Feeder(world.bootstrap, world.input) as feeder:
        first_version_runs(stack, world)

        for one, other in before:
            world.upgrade(stack, f"to-{other}", one, other)
            done = stack.completed(f"to-{other}", _EXCHANGED_S)
            assert {step["state"] for step in done["steps"]} == {"done"}
            assert world.running(stack) == [other]

        last = f"to-{newest}"
        world.upgrade(stack, last, old, newest)
        for name, step in (("b", "stop_beside"), ("c", "stop_application"), ("d", "start_on_tail")):
            reaches(stack, last, step)
            daemon.kill()
            daemon = stack.daemon(name)
        done = stack.completed(last, _EXCHANGED_S)
        assert {step["state"] for step in done["steps"]} == {"done"}
        stack.follower.catch_up()
        assert len(began(stack, last)) == len(done["steps"]), "no step began twice"
        assert world.running(stack) == [newest]
        total = feeder.total
        wait_for(lambda: feeder.total > total, 30.0)
    world.counted_once(feeder.written)
    only_daemon_and = {daemon.pid, *(p.pid for p in stack.processes() if world.runs_as(p) == newest)}
    wait_for(
        lambda: {process.pid for process in stack.processes()} == only_daemon_and,
        60.0,
        lambda: f"left over: {[p for p in stack.processes() if p.pid not in only_daemon_and]}",
    )
    runs = [*(f"to-{other}" for _, other in before), last]
    cuts = [stack.follower.status(run)["plan"]["version"]["unfixed_range"] for run in runs]
    ends = [sum(stop for _, stop in cut[world.input].values()) for cut in cuts]
    assert all(end < later for end, later in pairwise((0, *ends, feeder.total))), "each version wrote"

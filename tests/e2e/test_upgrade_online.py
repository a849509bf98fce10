"""`upgrade --mode online` of a real application of Kafka Streams while records keep coming. `exact`: the first try is
aborted after the old version stood still, the second takes over, and in the output each input was counted exactly once,
by one of the two.
`at_least_once`: nothing is lost, and what comes out twice is what the plan says, neither more nor less.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.e2e.exchange import ByHand, Feeder, exchange_stack, times_beyond_one
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import ack, step_of, waits_at

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

BETWEEN = 20  # records at the least that the old version processes between the two stops


@pytest.fixture
def world(bootstrap: str, unique: str, tmp_path: Path) -> ByHand:
    made = ByHand(bootstrap, unique, tmp_path / "apps")
    made.make_topics()
    return made


@pytest.fixture
def stack(bootstrap: str, world: ByHand, tmp_path: Path) -> Iterator[Stack]:
    with exchange_stack(bootstrap, tmp_path / "stack", world) as made:
        made.daemon()
        yield made


def upgrade_until_the_tail(stack: Stack, world: ByHand, run: str) -> None:
    """Both versions are stopped, and what lies between them is copied."""
    world.upgrade(stack, run, "old", "next")
    starts_as(stack, world, run, "start_beside", "next-staged")
    waits_at(stack, run, "stop_beside")
    assert world.new.stop() == 0
    waits_at(stack, run, "stop_application")
    assert world.old.stop() == 0
    waits_at(stack, run, "start_on_tail")


def starts_as(stack: Stack, world: ByHand, run: str, step: str, role: str) -> None:
    """Nobody else can tell which of the roles it is: all have the same group."""
    waits_at(stack, run, step)
    world.run_as(role)
    stack.control.command("ack", run, {"reason": "it runs", "step": step})


def await_no_tail(world: ByHand) -> None:
    """A broker may hear of a deletion a moment after it was confirmed."""
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    wait_for(lambda: not world.tails & set(admin.list_topics(timeout=60.0).topics), 20.0)


@pytest.mark.scenario("S-WIKI-8", "S-WIKI-8a")
def test_after_an_abort_the_old_version_goes_on_and_the_next_try_takes_over_with_each_input_counted_once(
    stack: Stack, world: ByHand
) -> None:
    control, follower, bootstrap = stack.control, stack.follower, world.bootstrap
    with world.programs():
        with Feeder(bootstrap, world.input) as feeder:
            upgrade_until_the_tail(stack, world, "first-try")
            control.command("stop", "first-try", {"reason": "not today"})
            follower.wait_state("first-try", "stopped", 120.0)
            control.command("rollback", "first-try", {"reason": "not today"})
            waits_at(stack, "first-try", "start_old_version")
            world.old.start()
            follower.wait_state("first-try", "rolled_back", 120.0)
            (tail,) = world.tails
            looked = step_of(stack, "first-try", "look_at_tail")["evidence"]
            assert (looked["read"], looked["state_grown"]) == ({tail: 0}, 0), "nobody started it"
            await_no_tail(world)

            upgrade_until_the_tail(stack, world, "second-try")
            starts_as(stack, world, "second-try", "start_on_tail", "next-tail")
            waits_at(stack, "second-try", "stop_on_tail")
            assert world.new.stop() == 0
            starts_as(stack, world, "second-try", "start_application", "next")
            done = follower.wait_state("second-try", "completed", 240.0)
        world.counted_once(feeder.written)
    await_no_tail(world)
    cut = done["plan"]["version"]["unfixed_range"][world.input]
    ready = next(step for step in done["steps"] if step["name"] == "await_ready")
    assert ready["evidence"]["held_s"] >= 5
    assert 0 < sum(stop for _, stop in cut.values()) < feeder.total, "both versions wrote"


@pytest.mark.wide(
    "tests/workflows/test_upgrade_online.py::test_at_least_once_what_lies_between_the_two_stops_comes_out_of_both"
)
@pytest.mark.scenario("S-WIKI-8")
def test_nothing_is_lost_and_just_as_much_comes_out_twice_as_the_plan_says(stack: Stack, world: ByHand) -> None:
    with world.programs():
        with Feeder(world.bootstrap, world.input) as feeder:
            world.upgrade(stack, "to-next", "old", "next", cutover="at_least_once", tail_unit=None)
            waits_at(stack, "to-next", "start_beside")
            world.run_as("next-staged")
            ack(stack, "to-next", "start_beside")
            planned = waits_at(stack, "to-next", "stop_beside")["plan"]["findings"]
            assert "what lies between the stops of next-staged and of old comes out of both" in planned
            assert world.new.stop() == 0
            waits_at(stack, "to-next", "stop_application")
            passed = world.count_out()
            world.await_count(passed + BETWEEN, 60.0, f"wanted {BETWEEN} more than {passed}")
            assert world.old.stop() == 0
            findings = waits_at(stack, "to-next", "start_application")["plan"]["findings"]
            world.run_as("next")
            ack(stack, "to-next", "start_application")
            stack.completed("to-next", 240.0)
        found = world.await_last(feeder.written)
    assert {key: sorted(set(numbers)) for key, numbers in found.items()} == {
        key: list(range(1, count + 1)) for key, count in feeder.written.items()
    }, "nothing is lost"
    twice = times_beyond_one(found)
    assert set(twice.values()) == {2}
    assert len(twice) > 0
    assert f"{len(twice):,} offsets between the two stops come out of both versions" in findings

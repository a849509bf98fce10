"""The measured speed of lanes without a limit, which later plans use."""

import pytest

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.events import BecameLeader
from recoveryd.kernel.states import State
from recoveryd.recovery.spec import Limits
from recoveryd.runtime.inbox import Item
from recoveryd.runtime.reporting import Reporter
from recoveryd.runtime.rounds import Round, Step
from recoveryd_jobs.contract import LaneHeartbeat
from tests.builders.core import BOOK, command, make_facts, make_spec
from tests.builders.world import World


def measured(limits: Limits) -> float | None:
    """The speed that is known after a heartbeat of a recovery with these limits that runs at 2,000 bytes/s per lane."""
    world = World(make_facts((10_000, 10_000)))
    world.feed(command("replay", spec=make_spec(limits=limits)))
    world.run_until(State.RUNNING)
    world.second(2)
    reporter, heartbeat = (
        Reporter(Metrics(BOOK.metrics), BOOK),
        LaneHeartbeat("r1", 1, 0, 1, "copying", False, 20.0, 2_000.0, (), ""),
    )
    step = Step(Item(heartbeat), world.state, Decision(world.state), 0.0)
    reporter.report(Round(world.state, None, (), (step,), 0), world.now_ms)
    return reporter.measured_bytes_per_s


def test_the_speed_of_an_unlimited_recovery_is_measured() -> None:
    assert measured(Limits()) == 4_000.0


@pytest.mark.parametrize("limits", [Limits(max_bytes_per_s=1e6), Limits(max_records_per_s=1e6)])
def test_the_speed_of_a_recovery_that_is_held_back_is_nobodys_measure(limits: Limits) -> None:
    assert measured(limits) is None


def test_a_new_leader_shows_that_nothing_was_lost_before_anything_is() -> None:
    """An increase is only seen from a value that was there before."""
    world = World(make_facts((10_000, 10_000)))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    metrics = Metrics(BOOK.metrics)
    step = Step(Item(BecameLeader(2, "control")), world.state, Decision(world.state), 0.0)
    Reporter(metrics, BOOK).report(Round(world.state, None, (), (step,), 0), world.now_ms)
    assert 'recoveryd_records_lost_total{topic="flights"} 0.0' in metrics.render().decode()

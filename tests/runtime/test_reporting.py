"""What a round says to people."""

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.events import BecameLeader
from recoveryd.kernel.states import State
from recoveryd.runtime.inbox import Item
from recoveryd.runtime.reporting import Reporter
from recoveryd.runtime.rounds import Round, Step
from tests.builders.core import BOOK, command, make_facts
from tests.builders.world import World


def test_a_new_leader_shows_that_nothing_was_lost_before_anything_is() -> None:
    """An increase is only seen from a value that was there before."""
    world = World(make_facts((10_000, 10_000)))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    metrics = Metrics(BOOK.metrics)
    step = Step(Item(BecameLeader(2, "control")), world.state, Decision(world.state), 0.0)
    Reporter(metrics, BOOK).report(Round(world.state, None, (), (step,), 0), world.now_ms)
    assert 'recoveryd_records_lost_total{topic="flights"} 0.0' in metrics.render().decode()

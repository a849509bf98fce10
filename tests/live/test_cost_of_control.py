"""The cost of a step of the controllers, in counts instead of time."""

from recoveryd.kernel.events import Tick
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.replay.spec import TargetRef
from tests.builders.core import command, make_spec
from tests.builders.live_world import LiveWorld


class Leaders(dict[int, int]):
    """Counts how often it is gone over."""

    visits = 0

    def values(self):
        Leaders.visits += 1
        return super().values()


def visits_at_a_step(recoveries: int) -> int:
    world = LiveWorld()
    world.live(70)
    for number in range(recoveries):
        spec = make_spec(target=TargetRef(f"copy{number}"))
        world.feed(command("replay", f"r{number}", spec=spec, offset=number))
    world.live(10)
    assert {world.recovery(f"r{number}").state for number in range(recoveries)} == {State.RUNNING}
    wide = TopicSample("main", "wide", "wide-id", {}, {}, {}, world.now_ms, 900, leaders=Leaders({0: 1}))
    world.feed(OffsetsSampled((wide,)))
    Leaders.visits, before = 0, world.state
    world.now_ms += world.params.control.period_ms
    world.feed(Tick())
    assert world.state is not before
    return Leaders.visits


def test_a_step_goes_over_the_leaders_of_a_topic_once_however_many_recoveries_it_controls() -> None:
    assert [visits_at_a_step(recoveries) for recoveries in (1, 5)] == [1, 1]

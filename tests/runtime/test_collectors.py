"""What is looked at, when, and that looking never hurts."""

import asyncio
from dataclasses import replace

import pytest

from daemon.collectors import CONTROL_TOPIC_EVERY_S, Collector, Monitored, topics_in_play
from daemon.core.catalogue import Code
from daemon.core.commands import LagSample, LagSignal
from daemon.core.decision import CoreState
from daemon.core.events import Event, OffsetsSampled, TopicSample
from daemon.core.model import DaemonRecord, State
from daemon.core.recoveries import Recoveries
from daemon.errors import ClusterProblem, RecoverydError
from tests.builders.core import command
from tests.builders.world import World
from tests.runtime.fakes import ManualClock, QuietClusters, until

MONITORED = (Monitored("main", "flights.live", "billing"),)


def state_with(*states: State) -> CoreState:
    world = World()
    world.feed(command("replay"))
    recoveries = {s.value: replace(world.recovery(), id=s.value, state=s) for s in states}
    return CoreState(Recoveries(recoveries), DaemonRecord(control_topic_id="control-1"))


class Groups:
    """Where groups stand, as the test says."""

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}
        self.error: Exception | None = None

    async def committed(self, cluster: str, group: str, topic: str) -> dict[int, int]:
        assert (cluster, group, topic) == ("main", "billing", "flights.live")
        if self.error is not None:
            raise self.error
        return self.positions


class Rig:
    def __init__(self, state: CoreState | None) -> None:
        self.state = state
        self.clusters, self.clock, self.events = QuietClusters(), ManualClock(), list[Event]()
        self.groups, self.lags = Groups(), list[LagSignal]()
        self.collector = Collector(
            self.clusters,
            self.groups,
            self.events.append,
            self.lags.append,
            lambda: self.state,
            self.clock,
            period_s=0.001,
            monitored=MONITORED,
        )


@pytest.mark.parametrize(
    ("states", "topics"),
    [
        ((), [("main", "flights.live")]),
        ((State.COMPLETED, State.REJECTED), [("main", "flights.live")]),
        (
            (State.RUNNING, State.PAUSED),
            [("main", "flights.live"), ("main", "flights"), ("main", "flights.v2")],
        ),
    ],
)
def test_topics_in_play_are_those_of_active_recoveries_and_the_configs(
    states: tuple[State, ...], topics: list[tuple[str, str]]
) -> None:
    assert topics_in_play(state_with(*states), MONITORED) == topics


async def test_a_look_becomes_an_event() -> None:
    rig = Rig(state_with(State.RUNNING))
    await rig.collector.collect()
    assert rig.events == [OffsetsSampled(())]


async def test_a_standby_asks_nothing() -> None:
    rig = Rig(None)
    await rig.collector.collect()
    assert (rig.clusters.sampled, rig.events) == ([], [])


@pytest.mark.parametrize("error", [ClusterProblem("down"), ValueError("a bug")])
async def test_a_look_that_fails_is_no_event_and_the_next_one_comes(error: Exception) -> None:
    rig = Rig(state_with(State.RUNNING))
    rig.clusters.sample_error = error
    running = asyncio.create_task(rig.collector.run())
    await until(lambda: len(rig.clusters.sampled) >= 2)
    assert rig.events == []
    rig.clusters.sample_error = None
    await until(lambda: rig.events)
    running.cancel()


async def test_a_control_topic_made_anew_under_the_daemon_ends_it() -> None:
    rig = Rig(state_with())
    rig.clusters.topic_id = "control-2"
    await rig.collector.collect()
    rig.clock.ms += int(CONTROL_TOPIC_EVERY_S * 1_000)
    with pytest.raises(RecoverydError) as raised:
        await rig.collector.collect()
    assert raised.value.code is Code.INVARIANT_BROKEN


async def test_a_main_cluster_that_does_not_answer_is_noticed_and_its_return_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(state_with())

    async def silent() -> str:
        raise ClusterProblem("no broker")

    answering = rig.clusters.control_topic_id
    found = []
    for ask in (silent, answering):
        monkeypatch.setattr(rig.clusters, "control_topic_id", ask)
        rig.clock.ms += int(CONTROL_TOPIC_EVERY_S * 1_000)
        await rig.collector.collect()
        found.append(rig.collector.is_main_reachable)
    assert found == [False, True]


ENDS = TopicSample("main", "flights.live", "t", {0: 0, 1: 0}, {0: 100, 1: 50}, {0: 90, 1: 50}, 7)


async def test_lag_of_a_watched_group_is_told_for_each_partition_of_the_topic() -> None:
    rig = Rig(state_with())
    rig.clusters.answer = OffsetsSampled((ENDS,))
    rig.groups.positions = {0: 80}
    await rig.collector.collect()
    rows = (LagSample(0, 80, 100, 7), LagSample(1, None, 50, 7))
    assert rig.lags == [LagSignal("main", "billing", "flights.live", rows)]


async def test_a_group_that_can_not_be_asked_costs_only_its_own_lag() -> None:
    rig = Rig(state_with())
    rig.clusters.answer = OffsetsSampled((ENDS,))
    rig.groups.error = ClusterProblem("no coordinator")
    await rig.collector.collect()
    assert (rig.lags, rig.events) == ([], [OffsetsSampled((ENDS,))])

"""What collectors sample, and when; their errors stop nothing."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from recoveryd.collectors.control_topic import ControlTopicWatch
from recoveryd.collectors.groups import COMMITS_ALONE_S
from recoveryd.collectors.offsets import CONTROL_TOPIC_EVERY_S, Monitored, OffsetCollector, topics_in_play
from recoveryd.errors import ClusterProblem, OwnTopicProblem, RecoverydError
from recoveryd.holds.events import GroupSeen, SeenMember
from recoveryd.holds.signals import HoldSignal, Told
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import ControlCutBack, Event, SignalReceived
from recoveryd.kernel.state import CoreState, DaemonRecord
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled, ReaderSampled, TopicSample
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagSample
from recoveryd.recovery.recoveries import Recoveries
from tests.builders.core import command, make_hold, state_of
from tests.builders.world import World
from tests.runtime.fakes import ManualClock, QuietClusters, StillIntake, until

MONITORED = (Monitored("main", "flights.live", "billing"),)


def state_with(*states: State) -> CoreState:
    world = World()
    world.feed(command("replay"))
    recoveries = {s.value: replace(world.recovery(), id=s.value, state=s) for s in states}
    return state_of(Recoveries(recoveries), daemon=DaemonRecord(control_topic_id="control-1"))


class Groups:
    """Positions of groups and whether they have members, as the test says; `asked` has the names in each question."""

    def __init__(self) -> None:
        self.positions: dict[str, dict[int, int]] = {}
        self.with_members: dict[str, bool] = {}
        self.known_members: dict[str, tuple[SeenMember, ...]] = {}
        self.asked_members: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.members_error: Exception | None = None
        self.asked: list[tuple[str, str, dict[str, int | None]]] = []

    async def committed(
        self, cluster: str, group: str, topics: Mapping[str, int | None]
    ) -> Mapping[str, Mapping[int, int]]:
        self.asked.append((cluster, group, dict(topics)))
        if self.error is not None:
            raise self.error
        return {topic: self.positions[topic] for topic in topics if topic in self.positions}

    async def have_members(self, cluster: str) -> Mapping[str, bool]:
        if self.members_error is not None:
            raise self.members_error
        return self.with_members

    async def members(self, cluster: str, group: str) -> tuple[SeenMember, ...] | None:
        self.asked_members.append((cluster, group))
        if self.error is not None:
            raise self.error
        return self.known_members.get(group)

    async def close(self) -> None:
        return


class Rig:
    def __init__(
        self, state: CoreState | None, monitored: Sequence[Monitored] = MONITORED, period_s: float = 0.001
    ) -> None:
        self.state = state
        self.clusters, self.clock, self.events = QuietClusters(), ManualClock(), list[Event]()
        self.groups, self.intake = Groups(), StillIntake()
        self.collector = OffsetCollector(
            self.clusters,
            self.groups,
            self.events.append,
            lambda: self.state,
            self.clock,
            control=ControlTopicWatch(self.clusters, self.intake, self.events.append),
            period_s=period_s,
            monitored=monitored,
        )

    async def looked(self, later_s: float = 0.0) -> list[Event]:
        """The events of one more round of sampling."""
        self.events.clear()
        self.clock.ms += int(later_s * 1_000)
        await self.collector.collect()
        return list(self.events)


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


def test_held_topics_are_in_play_until_they_are_released() -> None:
    world = World()
    world.feed(command("hold", "h1", spec=make_hold("airports", "flights.v2")))
    world.feed(command("hold", "h2", offset=1, spec=make_hold("airports")))
    assert topics_in_play(world.state, ()) == [("main", "airports"), ("main", "flights.v2")]
    world.feed(command("release", "h1", offset=2))
    assert topics_in_play(world.state, ()) == [("main", "airports")]


async def test_a_look_becomes_an_event() -> None:
    rig = Rig(state_with(State.RUNNING))
    await rig.collector.collect()
    assert rig.events == [OffsetsSampled(())]


async def test_a_standby_asks_nothing() -> None:
    rig = Rig(None)
    await rig.collector.collect()
    assert (rig.clusters.sampled, rig.events) == ([], [])


async def test_a_standby_that_begins_to_lead_looks_before_a_period_is_over() -> None:
    rig = Rig(None, period_s=3_600)
    running = asyncio.create_task(rig.collector.run())
    try:
        await asyncio.sleep(0.01)
        assert not rig.events
        rig.state = state_with()
        await until(lambda: any(isinstance(event, OffsetsSampled) for event in rig.events))
    finally:
        running.cancel()


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


async def test_a_control_topic_that_ends_before_what_was_taken_is_told_once() -> None:
    rig = Rig(state_with(), monitored=())
    rig.intake.position = 10
    for end in (10, 12):
        rig.clusters.end = end
        assert await rig.looked(CONTROL_TOPIC_EVERY_S) == []
    rig.clusters.end_error = ClusterProblem("no leader")
    rig.clusters.end = 7
    assert await rig.looked(CONTROL_TOPIC_EVERY_S) == []
    rig.clusters.end_error = None
    assert await rig.looked(CONTROL_TOPIC_EVERY_S) == [ControlCutBack(7, 10)]
    assert await rig.looked(CONTROL_TOPIC_EVERY_S) == []


async def test_what_is_taken_while_the_end_of_the_control_topic_is_asked_for_is_no_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(state_with(), monitored=())
    rig.intake.position = 10

    async def answer_late(_position: int) -> int:
        rig.intake.position = 20
        return 10

    monkeypatch.setattr(rig.clusters, "control_end", answer_late)
    assert await rig.looked(CONTROL_TOPIC_EVERY_S) == []


async def test_an_own_topic_that_got_more_partitions_under_the_daemon_ends_it() -> None:
    rig = Rig(state_with())
    rig.clusters.width_error = OwnTopicProblem(["control has partitions=2"], code=Code.OWN_TOPIC_WRONG)
    rig.clock.ms += int(CONTROL_TOPIC_EVERY_S * 1_000)
    with pytest.raises(OwnTopicProblem) as raised:
        await rig.collector.collect()
    assert raised.value.code is Code.OWN_TOPIC_WRONG


@pytest.mark.parametrize(
    "error", [ClusterProblem("no broker"), ClusterProblem("no right", code=Code.NOT_AUTHORISED, retriable=False)]
)
async def test_partitions_of_which_nothing_is_told_end_nothing(error: ClusterProblem) -> None:
    rig = Rig(state_with())
    rig.clusters.width_error = error
    for _ in range(3):
        rig.clock.ms += int(CONTROL_TOPIC_EVERY_S * 1_000)
        await rig.collector.collect()
    assert rig.collector.is_main_reachable, "that is told of the control topic alone"


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


ENDS = TopicSample("main", "flights.live", "t", {0: 3, 1: 0}, {0: 100, 1: 50}, {0: 90, 1: 50}, 7, 3)
BILLING = Reader("main", "flights.live", "billing")


def sampled(rig: Rig, positions: dict[int, int | None], is_active: bool | None = None) -> ReaderSampled:
    """The event of a sample of ENDS when the group is at these positions."""
    asked_at_ms, starts = rig.clock.now_ms(), {0: 3, 1: 0}
    rows = tuple(
        (p, LagSample(at, asked_at_ms, ENDS.high_watermark[p], 7, starts[p], ENDS.last_stable[p], "t", is_active))
        for p, at in positions.items()
    )
    return ReaderSampled(BILLING, (0, 1, 2), rows)


async def test_a_look_at_a_group_says_for_each_planned_partition_what_is_known_and_leaves_out_what_is_not() -> None:
    rig = Rig(state_with())
    rig.clusters.answer = OffsetsSampled((ENDS,))
    rig.groups.positions = {"flights.live": {0: 80, 2: 5}}
    assert await rig.looked() == [rig.clusters.answer, sampled(rig, {0: 80, 1: None})]


async def test_positions_are_asked_for_before_ends() -> None:
    rig, order = Rig(state_with()), list[str]()
    rig.groups.positions = {"flights.live": {0: 80}}
    committed, sample = rig.groups.committed, rig.clusters.sample

    async def ask_group(cluster: str, group: str, topics: Mapping[str, int | None]) -> Mapping[str, Mapping[int, int]]:
        answer = await committed(cluster, group, topics)
        await asyncio.sleep(0)
        order.append("positions")
        return answer

    async def ask_ends(topics: Iterable[tuple[str, str]]) -> OffsetsSampled:
        order.append("ends")
        rig.clock.ms += 1
        await sample(topics)
        return OffsetsSampled((replace(ENDS, sampled_at_ms=rig.clock.ms),))

    rig.groups.committed, rig.clusters.sample = ask_group, ask_ends  # type: ignore[method-assign]
    [_, event] = await rig.looked()
    assert order == ["positions", "ends"]
    assert isinstance(event, ReaderSampled)
    assert [s.end_at_ms - s.position_at_ms for _, s in event.samples] == [1, 1]


async def test_a_group_that_cannot_be_asked_costs_only_its_own_look() -> None:
    rig = Rig(state_with())
    rig.clusters.answer = OffsetsSampled((ENDS,))
    for error in (ClusterProblem("no coordinator"), ValueError("a bug")):
        rig.groups.error = error
        assert await rig.looked() == [rig.clusters.answer]


async def test_an_answer_without_the_topic_is_no_look_at_it() -> None:
    rig = Rig(state_with())
    rig.clusters.answer = OffsetsSampled((ENDS,))
    assert await rig.looked() == [rig.clusters.answer]


async def test_one_question_per_group_names_all_its_topics_and_their_width_once_it_is_known() -> None:
    monitored = [Monitored("main", topic, "billing") for topic in ("flights.live", "other")]
    rig = Rig(state_with(), monitored)
    rig.clusters.answer = OffsetsSampled((ENDS,))
    await rig.looked()
    await rig.looked()
    assert rig.groups.asked == [
        ("main", "billing", {"flights.live": None, "other": None}),
        ("main", "billing", {"flights.live": 3, "other": None}),
    ]


@pytest.mark.parametrize(("told", "is_active"), [({"billing": True}, True), ({"billing": False}, False), ({}, None)])
async def test_whether_a_group_has_members_goes_with_each_sample(told: dict[str, bool], is_active: bool | None) -> None:
    rig = Rig(state_with())
    rig.clusters.answer, rig.groups.positions, rig.groups.with_members = (
        OffsetsSampled((ENDS,)),
        {"flights.live": {0: 80}},
        told,
    )
    assert await rig.looked() == [rig.clusters.answer, sampled(rig, {0: 80, 1: None}, is_active)]


async def test_members_that_cannot_be_listed_are_not_known_and_positions_are_told_all_the_same() -> None:
    rig = Rig(state_with())
    rig.clusters.answer, rig.groups.positions = OffsetsSampled((ENDS,)), {"flights.live": {0: 80}}
    rig.groups.members_error = ClusterProblem("not allowed", retriable=False)
    assert await rig.looked() == [rig.clusters.answer, sampled(rig, {0: 80, 1: None}, None)]


async def test_a_group_whose_commits_move_without_members_is_read_by_somebody_until_they_rest() -> None:
    rig = Rig(state_with())
    rig.clusters.answer = OffsetsSampled((ENDS,))
    found = []
    # A member leaves with a last commit; then the group does not move, moves without members, and rests.
    for has_members, position, later_s in (
        (True, 10, 0),
        (False, 20, 5),
        (False, 20, 5),
        (False, 30, 5),
        (False, 30, COMMITS_ALONE_S - 1),
        (False, 30, 2),
    ):
        rig.clock.ms += int(later_s * 1_000)
        rig.groups.with_members, rig.groups.positions = {"billing": has_members}, {"flights.live": {0: position}}
        [_, event] = await rig.looked()
        assert isinstance(event, ReaderSampled)
        found.append(event.samples[0][1].is_active)
    assert found == [True, False, False, None, None, False]


async def test_a_topic_whose_ends_were_not_told_makes_no_look() -> None:
    rig = Rig(state_with())
    rig.groups.positions = {"flights.live": {0: 80}}
    rig.clusters.sample_error = ClusterProblem("down")
    assert await rig.looked() == []
    rig.clusters.sample_error, rig.clusters.answer = None, OffsetsSampled((), missing=(("main", "flights.live"),))
    assert await rig.looked() == [rig.clusters.answer]


async def test_members_of_groups_that_obey_a_hold_are_looked_at_and_others_not() -> None:
    world = World()
    world.feed(command("hold", "h1", spec=make_hold("flights.v2")))
    rig = Rig(world.state)
    await rig.collector.collect()
    assert rig.groups.asked_members == []
    signal = HoldSignal("h1", "reports", "m1", Told.PAUSED)
    world.feed(SignalReceived(7, world.now_ms, signal))
    rig = Rig(world.state)
    rig.groups.known_members["reports"] = (SeenMember("m1", "c", frozenset({"flights.v2"})),)
    await rig.collector.collect()
    assert rig.groups.asked_members == [("main", "reports")]
    (seen,) = [event for event in rig.events if isinstance(event, GroupSeen)]
    assert (seen.group, seen.members) == ("reports", rig.groups.known_members["reports"])
    rig.groups.known_members.clear()  # a group that the cluster does not describe
    assert [event for event in await rig.looked() if isinstance(event, GroupSeen)] == []
    rig.groups.error = ClusterProblem("no answer")
    assert [event for event in await rig.looked() if isinstance(event, GroupSeen)] == []

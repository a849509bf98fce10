"""Live traffic beside workflows: a group whose application one keeps stopped is no live traffic to protect, nothing is
taken away while others are over their SLO, and what they refuse is asked for again.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import SignalReceived, Tick
from recoveryd.kernel.states import State
from recoveryd.kernel.times import format_time_ms
from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagParams, LagSample
from recoveryd.live.law.types import ControllerParams
from recoveryd.live.params import LiveParams
from recoveryd.live.pressure import Protection, SignalKind
from recoveryd.live.signals import LagSignal, SignalledPartition
from recoveryd.live.slice import LIVE
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.recovery.events import FactsGathered
from recoveryd.recovery.recoveries import Recoveries
from recoveryd.recovery.slice import RECOVERY
from recoveryd.replay.spec import Replay
from recoveryd.units.facts import Member
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.machine.stopped import stopped_groups
from recoveryd.workflows.model.spec import RunbookPath
from tests.builders.core import make_book, make_facts, make_spec
from tests.builders.records import make_recovery
from tests.workflows.app_world import GROUP, INTERNAL, AppWorld
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_savepoint import restore, save

OWN, OTHER = Reader("main", "orders", GROUP), Reader("main", "flights", "board")
OWN_LAG, OTHER_LAG = "lag:app@orders", "lag:board@flights"
SLO_S = 15.0
LIVE_TRAFFIC = LiveParams(
    domains={
        "main": ControllerParams(
            protections=(
                Protection(OWN_LAG, SignalKind.LAG, SLO_S),
                Protection(OTHER_LAG, SignalKind.LAG, SLO_S),
            )
        )
    },
    lags={reader: LagParams(slo_ms=15_000) for reader in (OWN, OTHER)},
    readers=frozenset({OWN, OTHER}),
    protected={OWN: OWN_LAG, OTHER: OTHER_LAG},
)
LOOK_S, PER_S = 5, 10


class Watched:
    """A world of workflows whose live traffic is sampled: 10 records come in a second."""

    def __init__(self, world: AppWorld) -> None:
        self.world = world
        self.left = {OWN: 0, OTHER: 0}  # records that nobody has read yet
        self.reads = {OWN: True, OTHER: True}
        self.end = 1_000
        self.has_exporter = False
        self.live(60)

    def live(self, seconds: int) -> None:
        for _ in range(0, seconds, LOOK_S):
            self.end += PER_S * LOOK_S
            for reader in (OWN, OTHER):
                self.left[reader] = 0 if self.reads[reader] else self.left[reader] + PER_S * LOOK_S
                self._look(reader)
            self.world.pass_time(LOOK_S)

    def _look(self, reader: Reader) -> None:
        is_active = bool(self.world.members) if reader == OWN else True
        now_ms = self.world.now_ms
        if self.has_exporter:
            row = SignalledPartition(0, self.end - self.left[reader], self.end, now_ms)
            self.world.feed(SignalReceived(0, now_ms, LagSignal(reader.cluster, reader.group, reader.topic, (row,))))
        sample = LagSample(self.end - self.left[reader], now_ms - 10, self.end, now_ms, is_active=is_active)
        self.world.feed(ReaderSampled(reader, (0,), ((0, sample),)))

    def stops(self) -> None:
        """As a person or its platform stops the application."""
        self.world.members, self.reads[OWN] = [], False

    @property
    def why(self) -> str:
        return self.world.state.of(LIVE).protecting.decisions["main"].why

    @property
    def pressures(self) -> set[str]:
        return {p.name for p in self.world.state.of(LIVE).protecting.decisions["main"].pressures}


def watched(world: AppWorld | None = None, protected: LiveParams = LIVE_TRAFFIC) -> Watched:
    made = world or AppWorld()
    made.protect(protected)
    return Watched(made)


def saved(live: Watched) -> None:
    world = live.world
    save(world)
    world.run_through()
    assert world.workflow.state is State.COMPLETED
    world.starts(reads_all=False)
    live.reads[OWN] = True
    live.live(60)


def stopped_for_a_restore() -> Watched:
    """A restore of it is under way, and has waited for it to stop."""
    live = watched()
    saved(live)
    assert restore(live.world) == "accepted"
    live.stops()
    live.live(60)
    return live


def begin_copy(world: AppWorld) -> State:
    """The first copy that a workflow asked for is planned; the state in which it is then."""
    sent = world.sent[-1]
    world.send(lambda meta: Replay(meta, make_spec()), sent.source, sent.subject, sent.id)
    world.feed(FactsGathered(sent.subject, make_facts()))
    return recoveries(world).get(sent.subject).state  # type: ignore[union-attr]


def recoveries(world: AppWorld) -> Recoveries:
    return world.state.of(RECOVERY).recoveries


def test_the_lag_of_an_application_that_a_restore_has_stopped_does_not_refuse_its_copies() -> None:
    live = stopped_for_a_restore()
    world = live.world
    assert world.waiting("w2") == "copy_state"
    assert INTERNAL[0] in world.topics
    assert live.left[OWN] / PER_S > SLO_S
    assert begin_copy(world) is State.STARTING
    live.live(10)
    assert live.pressures == {OTHER_LAG}
    assert f"{OWN_LAG} does not count: workflow w2 keeps app stopped" in live.why
    memory = world.state.of(LIVE).protecting.states["main"].memory
    assert set(memory.protects) == {OWN_LAG, OTHER_LAG}, "nothing that is safe without it is safe"


def told_of(live: Watched, name: str) -> dict[str, float]:
    """A metric by signal."""
    samples = make_book(live.world.params).gauges(live.world.state, live.world.now_ms)
    return {s.labels[1]: s.value for s in samples if s.metric.name == name}


def test_metrics_say_that_it_is_left_out_and_not_that_it_is_missed() -> None:
    live = watched()
    save(live.world)
    assert told_of(live, "recoveryd_signal_left_out") == {OWN_LAG: 0, OTHER_LAG: 0}
    live.stops()
    live.live(30)
    assert told_of(live, "recoveryd_signal_left_out") == {OWN_LAG: 1, OTHER_LAG: 0}
    assert told_of(live, "recoveryd_signal_age_seconds").keys() == {OTHER_LAG}
    runs_again(live)
    assert told_of(live, "recoveryd_signal_left_out") == {OWN_LAG: 0, OTHER_LAG: 0}
    assert told_of(live, "recoveryd_signal_age_seconds").keys() == {OWN_LAG, OTHER_LAG}


def test_nor_does_it_once_a_new_daemon_leads() -> None:
    live = stopped_for_a_restore()
    live.world.lead()
    live.live(30)
    assert begin_copy(live.world) is State.STARTING


def test_it_counts_again_once_the_application_reads_again() -> None:
    live = stopped_for_a_restore()
    world = live.world
    world.complete_children()
    world.ack("clean_local_state", "w2")
    assert world.waiting("w2") == "start_application"
    live.live(10)
    assert live.pressures == {OTHER_LAG}
    world.starts(reads_all=False)
    live.live(10)
    assert live.left[OWN] / PER_S > SLO_S
    assert live.pressures == {OWN_LAG, OTHER_LAG}
    assert "does not count" not in live.why


def runs_again(live: Watched) -> None:
    """Somebody has started it, and it is behind; a member more or less is not waited for."""
    live.world.members, live.reads[OWN] = [Member("m2", "shop-1", "host")], False
    live.live(60)
    assert live.left[OWN] / PER_S > SLO_S


def test_it_counts_as_soon_as_somebody_starts_the_application_that_a_savepoint_has_stopped() -> None:
    live = watched()
    save(live.world)
    live.stops()
    live.live(30)
    assert live.world.waits_at == "copy_state"
    assert "does not count" in live.why
    runs_again(live)
    assert live.world.waits_at == "copy_state"
    assert live.pressures == {OWN_LAG, OTHER_LAG}
    assert "does not count" not in live.why


def test_so_it_does_while_a_paused_savepoint_has_it_stopped() -> None:
    live = watched()
    save(live.world)
    live.stops()
    live.live(30)
    live.world.send(Pause)
    runs_again(live)
    assert live.world.workflow.state is State.PAUSED
    assert live.pressures == {OWN_LAG, OTHER_LAG}


@pytest.mark.parametrize("is_running", [True, False])
def test_and_while_configs_are_put_back_at_the_end(is_running: bool) -> None:
    live = watched()
    world = live.world
    save(world)
    live.stops()
    live.live(30)
    world.fail_at("restore_configs", retriable=True)
    world.complete_children()
    assert world.workflow.state is State.CLOSING
    if is_running:
        runs_again(live)
    else:
        live.live(30)
    assert world.workflow.state is State.CLOSING
    said = "" if is_running else f"{OWN_LAG} does not count: workflow w1 works on app, and app has no members"
    assert said in live.why
    assert ("does not count" in live.why) is not is_running
    assert live.pressures == ({OWN_LAG, OTHER_LAG} if is_running else {OTHER_LAG})


def test_steps_of_long_ago_leave_nothing_out_while_a_savepoint_is_deleted() -> None:
    live = watched()
    saved(live)
    world = live.world
    world.fail_at("delete_copies", retriable=True)
    world.rollback()
    assert (world.workflow.state, world.workflow.is_rolling_back) == (State.RUNNING, True)
    assert stopped_groups(world.state.of(WORKFLOWS)) == {}
    runs_again(live)
    assert live.pressures == {OWN_LAG, OTHER_LAG}


def test_where_it_is_all_that_is_protected_a_copy_begins_low_all_the_same() -> None:
    domain = LIVE_TRAFFIC.domains["main"]
    alone = replace(domain, protections=tuple(p for p in domain.protections if p.name == OWN_LAG))
    live = watched(protected=replace(LIVE_TRAFFIC, domains={"main": alone}, protected={OWN: OWN_LAG}))
    world = live.world
    save(world)
    live.stops()
    live.live(60)
    assert begin_copy(world) is State.STARTING
    live.live(5)
    assert "nothing that is listed to be protected counts now" in live.why
    assert f"{OWN_LAG} does not count: workflow w1 keeps app stopped" in live.why
    decision = world.state.of(LIVE).protecting.decisions["main"]
    assert 0 < decision.rate_bytes_per_s <= 0.1 * world.params.control.max_bytes_per_s


def test_members_of_an_application_that_a_restore_has_stopped_count_also_where_an_exporter_tells_its_lag() -> None:
    """Its signals are newer than our looks, and do not tell members."""
    live = stopped_for_a_restore()
    world = live.world
    begin_copy(world)
    live.has_exporter = True
    live.live(10)
    assert live.pressures == {OTHER_LAG}
    world.members = [Member("m2", "shop-1", "host")]
    live.live(10)
    assert "does not count" not in live.why


def test_the_lag_of_an_application_that_is_down_counts_while_nobody_works_on_it() -> None:
    live = watched()
    live.stops()
    live.live(60)
    assert live.pressures == {OWN_LAG, OTHER_LAG}
    world = live.world
    world.send(lambda meta: Replay(meta, make_spec()), subject="r1")
    world.feed(FactsGathered("r1", make_facts()))
    refused = recoveries(world).get("r1")
    assert refused is not None
    assert (refused.state, refused.error_code) == (State.REJECTED, Code.LIVE_OVER_SLO.value)


def test_a_runbook_copies_for_an_application_that_is_down() -> None:
    world = RunbookWorld()
    live = watched(world)
    live.stops()
    live.live(60)
    world.begin(RunbookPath.REPLAY, topic="orders", ranges={0: (10, 20)})
    assert begin_copy(world) is State.STARTING
    live.live(10)
    assert "workflow w1 works on app, and app has no members" in live.why
    world.members = [Member("m2", "shop-1", "host")]
    live.live(10)
    assert "does not count" not in live.why, "who reads may be harmed"


def test_no_state_is_taken_away_while_live_traffic_of_others_lets_no_copy_begin() -> None:
    live = watched()
    saved(live)
    world = live.world
    before = world.topics[INTERNAL[0]].id
    restore(world)
    live.reads[OTHER] = False
    live.live(60)
    live.stops()
    live.live(30)
    waiting = world.look("w2").waiting_for
    assert waiting is not None
    assert (waiting.step, waiting.kind) == ("snapshot", "live")
    assert (
        "the state is not taken away while live traffic lets no copy begin: main: lag:board@flights"
        in world.look("w2").why
    )
    assert world.topics[INTERNAL[0]].id == before
    live.reads[OTHER] = True
    live.live(60)
    assert world.waiting("w2") == "copy_state"
    assert world.topics[INTERNAL[0]].id != before


def test_it_is_given_up_with_the_state_still_there() -> None:
    live = watched()
    saved(live)
    world = live.world
    before = world.topics[INTERNAL[0]].id
    restore(world)
    live.reads[OTHER] = False
    live.live(60)
    live.stops()
    live.live(1_900)
    ended = world.look("w2")
    assert (ended.state, ended.error_code) == (State.FAILED, Code.LIVE_OVER_SLO.value)
    assert world.topics[INTERNAL[0]].id == before


def over_slo(world: AppWorld, recovery: str) -> None:
    """What the daemon makes of a copy that comes while live traffic is over its SLO."""
    made = make_recovery(recovery, state=State.REJECTED, why="main: lag:board@flights is at 80 s")
    world.have_recovery(replace(made, error_code=Code.LIVE_OVER_SLO.value))


def test_a_copy_that_live_traffic_refuses_is_asked_for_again() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    first = world.sent[0]
    over_slo(world, first.subject)
    world.pass_time(2)
    assert world.workflow.state is State.WAITING
    assert f"{first.subject}: main: lag:board@flights is at 80 s; it is asked for again" in world.workflow.why
    world.lead()
    world.pass_time(60)
    again = [sent for sent in world.sent if sent.subject == first.subject and sent.id != first.id]
    assert again
    assert len({sent.id for sent in again}) == 1
    world.run_through()
    assert world.workflow.state is State.COMPLETED


def test_it_is_not_asked_for_for_ever() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    for _ in range(65):
        over_slo(world, world.sent[0].subject)
        world.pass_time(32)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.LIVE_OVER_SLO.value)
    assert "it was asked for again for 30 minutes" in world.workflow.why


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("every_s", [32, 90, 400])
def test_it_ends_half_an_hour_after_the_first_refusal_however_long_each_takes(
    every_s: int, *, is_restarted: bool
) -> None:
    world = AppWorld()
    save(world)
    world.stops()
    began_ms = world.now_ms
    while world.workflow.state is not State.FAILED and world.now_ms - began_ms < 7_200_000:
        over_slo(world, world.sent[0].subject)
        world.pass_time(3)
        if is_restarted:
            world.lead()
        world.forget_recovery(world.sent[0].subject)  # the next command was not read yet
        world.pass_time(every_s - 3)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.LIVE_OVER_SLO.value)
    assert "it was asked for again for 30 minutes" in world.workflow.why
    assert 1_800 <= (world.now_ms - began_ms) / 1_000 <= 1_800 + 2 * every_s


def test_what_is_refused_after_the_others_have_begun_has_half_an_hour_of_its_own() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    first, second = world.sent[0].subject, world.sent[1].subject
    over_slo(world, first)
    world.pass_time(40)
    world.have_recovery(make_recovery(first, state=State.PAUSED))
    world.pass_time(600)
    over_slo(world, second)
    refused_ms = world.now_ms
    world.pass_time(40)
    assert world.workflow.state is State.WAITING
    assert world.workflow.step is not None
    since_ms = world.workflow.step.evidence["refused_since_ms"]
    assert since_ms == pytest.approx(refused_ms, abs=4_000)
    assert f"it is asked for again until {format_time_ms(since_ms + 1_800_000)}" in world.workflow.why


def test_what_is_refused_while_another_is_only_planned_has_none() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    first, second = world.sent[0].subject, world.sent[1].subject
    over_slo(world, first)
    world.pass_time(4)
    assert world.workflow.step is not None
    since_ms = world.workflow.step.evidence["refused_since_ms"]
    world.pass_time(600)
    world.have_recovery(make_recovery(first, state=State.PLANNING))
    over_slo(world, second)
    world.pass_time(4)
    assert world.workflow.step is not None
    assert world.workflow.step.evidence["refused_since_ms"] == since_ms


@pytest.mark.parametrize(("minutes", "state"), [(13, State.FAILED), (31, State.WAITING)])
def test_a_time_in_which_nothing_was_refused_for_long_is_no_part_of_the_half_hour(minutes: int, state: State) -> None:
    """As while no daemon led, or there was no room for more."""
    world = AppWorld()
    save(world)
    world.stops()
    for _ in range(20):
        over_slo(world, world.sent[0].subject)
        world.pass_time(60)
    world.forget_recovery(world.sent[0].subject)
    world.now_ms += minutes * 60_000
    world.lead()
    over_slo(world, world.sent[0].subject)
    world.pass_time(4)
    assert world.workflow.state is state


def test_a_pause_is_no_part_of_the_half_hour() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    first = world.sent[0].subject
    over_slo(world, first)
    world.pass_time(40)
    world.send(Pause)
    world.pass_time(3_600, 10)
    world.send(Resume)
    world.pass_time(2)
    over_slo(world, first)
    world.pass_time(40)
    assert world.workflow.state is State.WAITING


def test_a_sibling_is_wanted_while_one_is_asked_for_again() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    over_slo(world, world.sent[0].subject)
    world.state = world.core.decide(world.state, Tick(), world.now_ms).state
    second = world.sent[1]
    world.send(lambda meta: Replay(meta, make_spec()), second.source, second.subject, second.id)
    assert recoveries(world).get(second.subject) is not None
    assert world.workflow.state is State.WAITING

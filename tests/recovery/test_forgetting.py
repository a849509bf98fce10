"""Ended recoveries are forgotten: by age and by number, the oldest first, receipts and folders before the status
record, and never a live one.
"""

from dataclasses import replace

from recoveryd.kernel.decision import Decision
from recoveryd.kernel.effects import Effect
from recoveryd.kernel.events import BecameLeader, ControlRead, ControlUnread, Event, Tick
from recoveryd.kernel.states import State
from recoveryd.recovery.effects import EndedRecovery, ForgetRecoveries, SetQuota
from recoveryd.recovery.events import ForgettingFailed, RecoveriesForgotten
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Limits
from recoveryd.replay.spec import TargetRef
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.spec import UntilTime
from recoveryd_jobs.contract import ReceiptsHome
from tests.builders.core import RECEIPTS, command, make_facts, make_spec
from tests.builders.deciding import make_decider
from tests.builders.watch_world import CAUGHT_UP, WatchWorld
from tests.builders.watch_world import PARAMS as WATCH_PARAMS
from tests.builders.world import PARAMS, World

KEPT_MS = 3_600_000
HOME = ReceiptsHome(RECEIPTS.topic, RECEIPTS.topic_id, RECEIPTS.partition, RECEIPTS.partitions, RECEIPTS.end)


class Remembering(World):
    """A world that notes what is to be forgotten; the test gives the answer."""

    def __init__(self, **params: int) -> None:
        super().__init__(make_facts((40, 40)), replace(PARAMS, **params), speed=100)
        self.asked: list[ForgetRecoveries] = []

    def _run(self, effect: Effect) -> list[Event]:
        if isinstance(effect, ForgetRecoveries):
            self.asked.append(effect)
            return []
        return super()._run(effect)

    def answer(self, *ids: str) -> Decision:
        """All that was asked about these is deleted."""
        asked = {ended.id: ended for effect in self.asked for ended in effect.recoveries}
        return self.feed(RecoveriesForgotten("main", tuple(asked.get(i, EndedRecovery(i, None)) for i in ids)))

    def complete(self, *ids: str) -> None:
        """Let these recoveries complete, one after the other."""
        for name in ids:
            offset = self.state.daemon.applied_control_offset + 1
            self.feed(command("replay", name, offset=offset, spec=make_spec(target=TargetRef(f"{name}.copy"))))
            self.run_until(State.COMPLETED, recovery_id=name)
            self.second(90)
            assert self.state.of(RECOVERY).recoveries.live == {}


def test_a_recovery_that_ended_long_ago_is_taken_away_outside_and_then_forgotten() -> None:
    world = Remembering(keep_terminal_ms=KEPT_MS)
    world.complete("r1", "r2")
    world.now_ms = world.recovery("r1").updated_ms + KEPT_MS - 1
    assert (world.feed(Tick()).effects, world.asked) == ((), [])
    world.now_ms += 1
    world.feed(Tick())
    assert world.asked == [ForgetRecoveries("main", (EndedRecovery("r1", HOME, 0),))]
    world.feed(Tick())
    assert (len(world.asked), sorted(world.state.of(RECOVERY).recoveries)) == (1, ["r1", "r2"]), (
        "asked once, and known until then"
    )
    decision = world.answer("r1")
    assert (decision.forgotten, decision.needs_journal, sorted(world.state.of(RECOVERY).recoveries)) == (
        ("r1",),
        True,
        ["r2"],
    )


def test_nothing_is_forgotten_before_it_is_known_what_was_sent_about_it() -> None:
    world = Remembering(keep_terminal_ms=KEPT_MS)
    world.complete("r1")
    world.feed(ControlUnread())
    world.now_ms += KEPT_MS
    world.feed(Tick())
    assert world.asked == []
    world.feed(ControlRead())
    world.feed(Tick())
    assert [ended.id for effect in world.asked for ended in effect.recoveries] == ["r1"]


def test_of_too_many_the_oldest_are_forgotten_early() -> None:
    world = Remembering(keep_terminal_most=1)
    world.complete("r1", "r2", "r3")
    assert world.asked[0] == ForgetRecoveries("main", (EndedRecovery("r1", HOME, 0),))
    world.answer("r1")
    world.feed(Tick())
    assert world.asked[1:] == [ForgetRecoveries("main", (EndedRecovery("r2", HOME, 1),))]
    world.answer("r2")
    world.feed(Tick())
    assert (len(world.asked), sorted(world.state.of(RECOVERY).recoveries)) == (2, ["r3"])


def test_what_is_under_way_is_not_asked_for_again_however_long_it_takes_and_after_a_failure_it_is() -> None:
    world = Remembering(keep_terminal_ms=KEPT_MS)
    world.complete("r1")
    world.now_ms = world.recovery("r1").updated_ms + KEPT_MS
    world.feed(Tick())
    world.now_ms += 3_600_000
    world.feed(Tick())
    assert len(world.asked) == 1
    world.feed(ForgettingFailed("main", "RCV-2011", "no answer"))
    world.feed(Tick())
    assert len(world.asked) == 1, "not at once"
    world.now_ms += 300_000
    world.feed(Tick())
    assert len(world.asked) == 2


def test_a_new_leader_asks_again() -> None:
    world = Remembering(keep_terminal_most=0)
    world.complete("r1")
    world.restart_daemon()
    world.feed(Tick())
    assert len(world.asked) == 2


def test_a_recovery_that_uses_the_id_again_is_not_forgotten_with_the_earlier_one() -> None:
    world = Remembering(keep_terminal_most=0)
    world.complete("r1")
    late = world.asked[0]
    world.answer("r1")
    world.complete("r1")  # the id is free
    world.feed(RecoveriesForgotten("main", late.recoveries))  # somebody else was asked to forget the first one as well
    assert "r1" in world.state.of(RECOVERY).recoveries
    world.answer("r1")
    assert "r1" not in world.state.of(RECOVERY).recoveries


def test_the_id_of_a_forgotten_recovery_is_free_and_its_command_is_still_known() -> None:
    world = Remembering(keep_terminal_most=1)
    world.complete("r1", "r2")
    world.answer("r1")
    world.complete("r1")
    assert world.recovery("r1").version > 1
    assert [a.kind for a in world.answers] == ["accepted"] * 3


def test_a_recovery_that_came_to_life_again_stays() -> None:
    world = Remembering()
    world.feed(command("replay", "r1", spec=make_spec()))
    assert world.recovery("r1").state is State.STARTING
    assert world.answer("r1", "never known").forgotten == ()
    assert world.recovery("r1").state is State.STARTING


class Unanswered(Remembering):
    """Nobody says whether a quota is removed."""

    def _run(self, effect: Effect) -> list[Event]:
        return [] if isinstance(effect, SetQuota) and effect.bytes_per_s is None else super()._run(effect)


def test_another_recovery_of_the_id_does_not_begin_with_the_quota_of_the_forgotten_one() -> None:
    world = Unanswered(keep_terminal_ms=KEPT_MS)
    world.params = replace(world.params, quotas_enabled=True)
    world.decider = make_decider(world.params)
    world.feed(BecameLeader(2, "control"))
    world.feed(command("replay", spec=make_spec(limits=Limits(max_bytes_per_s=1e6))))
    world.run_until(State.COMPLETED)
    world.second(90)
    assert "r1" in world.state.of(RECOVERY).quotas.recoveries
    world.now_ms += KEPT_MS
    world.feed(Tick())
    world.answer("r1")
    assert world.state.of(RECOVERY).quotas.recoveries == {}


def test_totals_leave_with_what_is_forgotten_unless_the_topic_is_in_play() -> None:
    world = Remembering(keep_terminal_most=1)
    world.complete("r1", "r2")
    before = world.state.of(RECOVERY).recoveries.totals
    assert before.counts == {("replay", State.COMPLETED): 2}
    world.answer("r1")
    after = world.state.of(RECOVERY).recoveries.totals
    assert after.counts == {("replay", State.COMPLETED): 1}
    assert set(before.copied) - set(after.copied) <= {("main", "r1.copy")}
    assert after.copied["main", "flights"] == before.copied["main", "flights"], (
        "of a topic in play nothing is uncounted"
    )


def test_watches_that_ended_are_forgotten_by_age_and_number_and_live_ones_are_not() -> None:
    world = WatchWorld(params=replace(WATCH_PARAMS, keep_terminal_ms=KEPT_MS, keep_terminal_most=2))
    for name in ("w1", "w2", "w3"):
        world.start(replace(CAUGHT_UP, until=UntilTime(world.now_ms + 1)), name)
        world.now_ms += 1_000
        world.feed(Tick())
        assert world.watch(name).state is State.COMPLETED
    world.start(subject="w4")
    decision = world.feed(Tick())
    assert decision.forgotten == ()
    assert sorted(w.id for w in world.state.of(WATCHES)) == ["w2", "w3", "w4"]
    world.now_ms = world.watch("w3").updated_ms + KEPT_MS
    world.feed(ControlUnread())
    assert world.feed(Tick()).forgotten == ()
    decision = world.feed(ControlRead())
    assert (decision.forgotten, decision.needs_journal) == (("w2", "w3"), True)
    assert [w.id for w in world.state.of(WATCHES)] == ["w4"]
    assert world.send("watch", "w1", spec=CAUGHT_UP).kind == "accepted", "the id is free"

"""Consumers that obey a hold: what their members say, who is silent, and when a whole group has paused."""

from collections.abc import Iterable

from recoveryd.holds.events import GroupSeen, SeenMember
from recoveryd.holds.known import groups_heard
from recoveryd.holds.model import HeldMember, Obeys
from recoveryd.holds.obeying import MEMBERS_MOST, POSITIONS_MOST
from recoveryd.holds.signals import HeldPosition, HoldSignal, Told
from recoveryd.kernel.events import SignalReceived
from tests.holds.test_life_of_a_hold import HoldWorld

TOPIC = "flights.v2"
AT = (HeldPosition(TOPIC, 0, 5), HeldPosition(TOPIC, 1, None))


class ReaderWorld(HoldWorld):
    """A hold on one topic, and a group whose members speak or do not."""

    def __init__(self) -> None:
        super().__init__()
        self.hold(TOPIC)
        self.signals = 1_000

    def says(
        self, member: str, state: Told = Told.PAUSED, positions: Iterable[HeldPosition] = AT, hold: str = "h1"
    ) -> bool:
        """Whether the hold was journaled anew."""
        self.signals += 1
        self.now_ms += 1_000
        signal = HoldSignal(hold, "reports", member, state, f"client-{member}", tuple(positions))
        return bool(self.feed(SignalReceived(self.signals, self.now_ms, signal)).changed)

    def sees(self, *members: str, elsewhere: Iterable[str] = (), after_ms: int = 1_000) -> bool:
        """The broker names the members that read the topic, and others of the group."""
        self.now_ms += after_ms
        there = [SeenMember(m, f"client-{m}", frozenset({TOPIC})) for m in members]
        there += [SeenMember(m, f"client-{m}", frozenset({"other"})) for m in elsewhere]
        return bool(self.feed(GroupSeen("main", "reports", self.now_ms, tuple(there))).changed)

    @property
    def states(self) -> dict[str, str]:
        return {m.member: m.state.value for m in self.of().members}

    def told(self, kind: str) -> list[dict[str, object]]:
        return [dict(notice.data) for notice in self.notices if notice.type == kind]


def test_what_a_member_says_is_shown_and_journaled_once() -> None:
    world = ReaderWorld()
    assert world.says("m1", Told.DRAINING, ())
    assert world.says("m1")
    paused_ms = world.now_ms
    assert world.of().members == (HeldMember("reports", "m1", Obeys.PAUSED, paused_ms, "client-m1", AT),)
    assert not world.says("m1")
    assert world.of().members[0].since_ms == paused_ms
    told = world.told("hold_acknowledged")
    assert [(t["state"], t["member"]) for t in told] == [("draining", "m1"), ("paused", "m1")]
    assert told[1]["positions"] == [
        {"topic": TOPIC, "partition": 0, "offset": 5}, {"topic": TOPIC, "partition": 1, "offset": None},
    ]  # fmt: skip
    assert told[1]["why"] == "reports: client-m1 has paused"


def test_a_group_is_asked_for_once_one_of_it_has_spoken() -> None:
    world = ReaderWorld()
    assert groups_heard(world.holds) == []
    assert not world.sees("m1")
    world.says("m1")
    assert groups_heard(world.holds) == [("main", "reports")]
    world.send("release")
    assert groups_heard(world.holds) == []


def test_who_reads_there_and_says_nothing_is_silent_and_keeps_the_group_from_having_obeyed() -> None:
    world = ReaderWorld()
    world.says("m1")
    assert world.sees("m1", "m2", elsewhere=["m3"])
    silent_ms = world.now_ms
    assert world.states == {"m1": "paused", "m2": "silent"}
    assert not world.sees("m1", "m2", elsewhere=["m3"])
    assert world.of().members[1].since_ms == silent_ms
    assert (world.of().obeyed, world.told("hold_obeyed")) == ((), [])
    world.says("m2")
    world.sees("m1", "m2")
    assert (world.states, world.of().obeyed) == ({"m1": "paused", "m2": "paused"}, ("reports",))
    assert [(t["group"], t["members"]) for t in world.told("hold_obeyed")] == [("reports", 2)]
    world.sees("m1", "m2")
    assert len(world.told("hold_obeyed")) == 1


def test_a_new_member_while_held_takes_the_word_back_until_it_has_paused() -> None:
    world = ReaderWorld()
    world.says("m1")
    world.sees("m1")
    assert world.of().obeyed == ("reports",)
    world.sees("m1", "new")
    assert world.of().obeyed == ()
    world.says("new", Told.DRAINING, ())
    world.sees("m1", "new")
    assert world.of().obeyed == ()
    world.says("new")
    world.sees("m1", "new")
    assert (world.of().obeyed, len(world.told("hold_obeyed"))) == (("reports",), 2)


def test_a_member_that_drains_again_takes_the_word_back_at_once() -> None:
    world = ReaderWorld()
    world.says("m1")
    world.sees("m1")
    world.says("m1", Told.DRAINING, ())
    assert world.of().obeyed == ()


def test_who_left_or_is_gone_is_taken_off() -> None:
    world = ReaderWorld()
    world.says("m1")
    world.says("m2")
    world.sees("m1", "m2", "m3")
    assert world.says("m1", Told.LEFT, ())
    assert world.sees("m3")
    assert world.states == {"m3": "silent"}
    assert not world.says("nobody", Told.LEFT, ())
    assert world.sees()
    assert (world.states, groups_heard(world.holds)) == ({}, [])


def test_a_look_that_was_asked_for_before_a_member_spoke_does_not_take_it_off() -> None:
    world = ReaderWorld()
    asked_ms = world.now_ms
    world.says("m1")
    world.feed(GroupSeen("main", "reports", asked_ms, ()))
    assert world.states == {"m1": "paused"}
    world.sees()
    assert world.states == {}


def test_a_member_that_is_gone_is_taken_off_also_when_the_clock_was_set_back_since_it_spoke() -> None:
    world = ReaderWorld()
    world.says("m1")
    world.now_ms -= 3_600_000
    world.sees()
    assert world.states == {}


def test_signals_about_holds_that_are_over_or_not_known_change_nothing() -> None:
    world = ReaderWorld()
    assert not world.says("m1", hold="h9")
    world.send("release")
    assert not world.says("m1")
    assert world.of().members == ()


def test_a_group_of_the_same_name_on_another_cluster_is_another() -> None:
    world = ReaderWorld()
    world.says("m1")
    world.feed(GroupSeen("dr", "reports", world.now_ms + 1, ()))
    assert world.states == {"m1": "paused"}


def test_members_and_positions_are_bounded_and_positions_elsewhere_left_out() -> None:
    world = ReaderWorld()
    many = [HeldPosition(TOPIC, p, 1) for p in range(POSITIONS_MOST - 10)]
    world.says("m1", positions=[*many, HeldPosition("other", 0, 1)])
    assert len(world.of().members[0].positions) == POSITIONS_MOST - 10
    world.says("m2", positions=many)
    assert len(world.of().members[1].positions) == 10
    for number in range(MEMBERS_MOST):
        world.says(f"x{number}", positions=())
    assert len(world.of().members) == MEMBERS_MOST


def test_one_that_is_silent_counts_where_there_is_no_room_to_list_it() -> None:
    world = ReaderWorld()
    names = [f"m{number}" for number in range(MEMBERS_MOST)]
    for name in names:
        world.says(name, positions=())
    world.sees(*names, "silent")
    assert (world.told("hold_obeyed"), world.of().obeyed) == ([], ())
    world.sees(*names)
    assert [told["members"] for told in world.told("hold_obeyed")] == [MEMBERS_MOST]


def test_a_restart_forgets_none_of_it() -> None:
    world = ReaderWorld()
    world.says("m1")
    world.sees("m1", "m2")
    before = world.of()
    world.restart_daemon()
    assert world.of() == before

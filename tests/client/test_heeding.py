"""What a consumer does and says about holds, in any order of assignments, holds, drains and deliveries."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from recoveryd.client.heeding import DRAINING, LEFT, PAUSED, Heeding, HoldAck, Place, Todo

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
H1 = frozenset({"h1"})


def heeding(*places: Place) -> Heeding:
    made = Heeding()
    made.assign(places)
    return made


def say(made: Heeding, member: str = "m1") -> list[HoldAck]:
    """All that is due, delivered at once."""
    due = made.due(member)
    for ack in due:
        made.told(ack)
    return due


def test_a_hold_pauses_drains_settles_and_is_acknowledged_with_positions() -> None:
    made = heeding(A0, A1, B0)
    assert made.look({"a": H1}) == Todo((A0, A1), ())
    assert (made.unsettled, say(made)) == ((A0, A1), [HoldAck("h1", "m1", DRAINING)])
    made.settle({A0: 5})
    assert (made.unsettled, say(made)) == ((A1,), [])
    made.settle({A1: None})
    assert say(made) == [HoldAck("h1", "m1", PAUSED, (("a", 0, 5), ("a", 1, None)))]
    assert say(made) == []
    assert [made.is_paused(place) for place in (A0, A1, B0)] == [True, True, False]
    assert made.look({}) == Todo((), (A0, A1))
    assert say(made) == []
    assert made.leave() == []


def test_of_two_holds_the_last_one_resumes() -> None:
    made = heeding(A0)
    made.look({"a": frozenset({"h1", "h2"})})
    made.settle({A0: 5})
    assert [ack.hold for ack in say(made)] == ["h1", "h2"]
    assert made.look({"a": frozenset({"h2"})}) == Todo((), ())
    assert say(made) == []
    assert made.look({}) == Todo((), (A0,))


def test_a_partition_that_comes_while_held_is_paused_and_told_anew() -> None:
    made = heeding(A0)
    made.look({"a": H1})
    made.settle({A0: 5})
    say(made)
    made.assign([A1])
    assert made.look({"a": H1}) == Todo((A1,), ())
    assert say(made) == [HoldAck("h1", "m1", DRAINING)]
    made.settle({A1: 7})
    assert say(made) == [HoldAck("h1", "m1", PAUSED, (("a", 0, 5), ("a", 1, 7)))]


def test_one_that_goes_is_not_told_of_any_more() -> None:
    made = heeding(A0, A1)
    made.look({"a": H1})
    made.settle({A0: 5, A1: 7})
    say(made)
    made.revoke([A1])
    made.look({"a": H1})
    assert say(made) == [HoldAck("h1", "m1", PAUSED, (("a", 0, 5),))]
    made.revoke([A0])
    assert made.topics == {"a"}
    made.look({"a": H1})
    assert say(made) == [HoldAck("h1", "m1", PAUSED)]
    assert (made.topics, made.unsettled) == (frozenset(), ())


def test_under_a_new_member_id_it_is_told_again() -> None:
    made = heeding(A0)
    made.look({"a": H1})
    made.settle({A0: 5})
    say(made)
    assert [ack.member for ack in say(made, "m2")] == ["m2"]
    assert made.leave() == [HoldAck("h1", "m2", LEFT)]


def test_what_was_not_delivered_stays_due() -> None:
    made = heeding(A0)
    made.look({"a": H1})
    made.settle({A0: 5})
    assert made.due("m1") == made.due("m1") != []


def test_a_drain_that_ends_after_the_release_settles_nothing() -> None:
    made = heeding(A0)
    made.look({"a": H1})
    made.look({})
    made.settle({A0: 5})
    assert made.look({"a": H1}) == Todo((A0,), ())
    assert made.unsettled == (A0,)


class Lives(RuleBasedStateMachine):
    """The library keeps what is paused; the test compares."""

    def __init__(self) -> None:
        super().__init__()
        self.made = Heeding()
        self.assigned: set[Place] = set()
        self.paused: set[Place] = set()
        self.held: dict[str, frozenset[str]] = {}
        self.said: dict[str, HoldAck] = {}

    places = st.sets(st.sampled_from([A0, A1, B0]))

    @rule(places=places)
    def assign(self, places: set[Place]) -> None:
        self.made.assign(places)
        self.assigned |= places
        self._look()

    @rule(places=places)
    def revoke(self, places: set[Place]) -> None:
        self.made.revoke(places)
        self.assigned -= places
        self.paused -= places

    @rule(held=st.dictionaries(st.sampled_from("ab"), st.sets(st.sampled_from(["h1", "h2"]), min_size=1)))
    def hold(self, held: dict[str, set[str]]) -> None:
        self.held = {topic: frozenset(ids) for topic, ids in held.items()}
        self._look()

    def _look(self) -> None:
        todo = self.made.look({t: ids for t, ids in self.held.items() if t in self.made.topics})
        assert set(todo.pause).isdisjoint(self.paused)
        assert set(todo.resume) <= self.paused
        self.paused = (self.paused | set(todo.pause)) - set(todo.resume)

    @rule(places=places, offset=st.none() | st.integers(0, 9))
    def settle(self, places: set[Place], offset: int | None) -> None:
        self.made.settle(dict.fromkeys(places, offset))

    @rule(delivered=st.booleans())
    def speak(self, delivered: bool) -> None:
        for ack in self.made.due("m1"):
            if ack.state == PAUSED:
                assert {(t, p) for t, p, _ in ack.positions} <= self.paused
            if delivered:
                self.made.told(ack)
                self.said[ack.hold] = ack

    @invariant()
    def paused_is_what_is_held(self) -> None:
        assert self.paused == {place for place in self.assigned if place[0] in self.held}
        assert set(self.made.unsettled) <= self.paused

    @invariant()
    def the_last_word_is_true_or_another_is_due(self) -> None:
        due = {ack.hold for ack in self.made.due("m1")}
        for hold in {h for place in self.paused for h in self.held[place[0]]}:
            mine = {p for p in self.paused if hold in self.held[p[0]]}
            said = self.said.get(hold)
            is_true = said is not None and (
                (
                    said.state == PAUSED
                    and {(t, p) for t, p, _ in said.positions} == mine
                    and not mine & set(self.made.unsettled)
                )
                or (said.state == DRAINING and bool(mine & set(self.made.unsettled)))
            )
            assert is_true or hold in due


Lives.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestLives = Lives.TestCase

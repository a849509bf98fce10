"""From the command to the end of a hold: answers, owners, topics that are let go one by one, expiry, and restarts."""

import pytest

from recoveryd.holds.commands import ACTIVE_MOST
from recoveryd.holds.draft import HOLDS
from recoveryd.holds.held import holder_of, reading_holder_of, refuse_held
from recoveryd.holds.known import HeldBy, Holds
from recoveryd.holds.metrics import HELD_SECONDS
from recoveryd.holds.model import Hold
from recoveryd.holds.spec import HoldSpec
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Answer
from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.events import ControlRead, ControlUnread, Tick
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.recovery.params import Params
from tests.builders.core import BOOK, NOW_MS, command, make_hold
from tests.builders.world import PARAMS, World

BOB = "//ops/bob"
DAY_MS = 86_400_000


class HoldWorld(World):
    """A world in which commands about holds are sent and their answers read."""

    def send(self, verb: str, subject: str = "h1", **more: object) -> Answer:
        number = len(self.answers)
        self.feed(command(verb, subject, f"c{number}", offset=number, **more))  # type: ignore[arg-type]
        return self.answers[-1]

    def hold(self, *topics: str, subject: str = "h1", source: str = "//ops/alice", **more: object) -> Hold:
        answer = self.send("hold", subject, spec=make_hold(*topics, **more), source=source)  # type: ignore[arg-type]
        assert answer.kind == "accepted", answer
        return self.of(subject)

    def of(self, subject: str = "h1") -> Hold:
        found = self.holds.get(subject)
        assert found is not None
        return found

    @property
    def holds(self) -> Holds:
        return self.state.of(HOLDS)

    def about_holds(self) -> list[str]:
        return [notice.type for notice in self.notices if notice.type.startswith("hold_")]


def test_a_hold_begins_at_once_and_names_who_and_why_to_whoever_asks() -> None:
    world = HoldWorld()
    held = world.hold("flights.v2", "airports")
    assert (held.state, held.owner) == (State.RUNNING, "//ops/alice")
    assert held.why == "flights.v2, airports held by //ops/alice: because"
    assert world.answers[-1].message == "h1 holds flights.v2, airports"
    by = HeldBy("h1", "//ops/alice", "because", reads=False)
    assert holder_of(world.holds, ("main", "airports")) == by
    assert holder_of(world.holds, ("other", "airports")) is None
    refused = refuse_held(world.holds, [("main", "free"), ("main", "airports")])
    assert refused is not None
    assert (refused.code, refused.message) == (Code.TOPIC_HELD, "airports is held by h1 of //ops/alice: because")
    assert world.about_holds() == ["hold_started"]


def test_only_a_hold_that_says_so_keeps_from_reading() -> None:
    world = HoldWorld()
    world.hold("flights")
    assert reading_holder_of(world.holds, ("main", "flights")) is None
    assert refuse_held(world.holds, [], [("main", "flights")]) is None
    world.hold("flights", subject="h2", reads=True)
    found = reading_holder_of(world.holds, ("main", "flights"))
    assert found is not None
    assert found.hold == "h2"
    assert refuse_held(world.holds, [], [("main", "flights")]) is not None


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (HoldSpec("mian", ("flights",)), Code.UNKNOWN_CLUSTER),
        (HoldSpec("main", ("flights", "recovery.status.v1")), Code.INTERNAL_TOPIC),
    ],
)
def test_what_cannot_be_held_is_refused_and_holds_nothing(spec: HoldSpec, code: Code) -> None:
    world = HoldWorld(params=Params(own_topics=frozenset({"recovery.status.v1"})))
    answer = world.send("hold", spec=spec)
    assert (answer.kind, answer.code) == ("rejected", code.value)
    assert (len(world.holds), world.holds.held) == (0, {})


def test_a_used_id_is_refused_also_after_its_end() -> None:
    world = HoldWorld()
    world.hold()
    assert world.send("hold").code == Code.ID_IN_USE.value
    world.send("release")
    assert world.send("hold").code == Code.ID_IN_USE.value
    assert world.send("replay").code == Code.ID_IN_USE.value


def test_more_holds_than_a_daemon_allows_are_refused() -> None:
    world = HoldWorld()
    for number in range(ACTIVE_MOST):
        world.hold("flights.v2", subject=f"h{number}")
    assert world.send("hold", "one-more").code == Code.TOO_MANY_HOLDS.value
    world.send("release", "h7")
    assert world.send("hold", "one-more").kind == "accepted"


def test_released_by_its_id_it_ends_whoever_sends_that() -> None:
    world = HoldWorld()
    world.hold("flights.v2", "airports")
    world.now_ms += 5_000
    answer = world.send("release", source=BOB)
    held = world.of()
    assert (answer.kind, held.state, world.holds.held) == ("accepted", State.COMPLETED, {})
    assert held.stop is not None
    assert (held.stop.reason, held.stop.evidence["held_ms"]) == (StopReason.OPERATOR, 5_000)
    assert held.topics == ("flights.v2", "airports")  # what it had last, for whoever reads it later
    assert world.about_holds() == ["hold_started", "hold_completed"]


def test_a_second_release_changes_nothing() -> None:
    world = HoldWorld()
    world.hold()
    world.send("release")
    before = world.of()
    assert world.send("release").kind == "accepted"
    assert (world.of(), world.about_holds()) == (before, ["hold_started", "hold_completed"])


def test_topics_are_let_go_one_by_one() -> None:
    world = HoldWorld()
    world.hold("a", "b", "c")
    world.send("release", topics=("b",))
    held = world.of()
    assert (held.state, held.topics, held.released) == (State.RUNNING, ("a", "c"), ("b",))
    assert set(world.holds.held) == {("main", "a"), ("main", "c")}
    assert world.send("release", topics=("b", "c")).kind == "accepted"  # one of them again
    world.send("release", topics=("a",))
    assert (world.of().state, world.holds.held) == (State.COMPLETED, {})
    assert world.about_holds() == ["hold_started", "hold_narrowed", "hold_narrowed", "hold_completed"]


def test_a_topic_that_the_hold_never_had_is_refused_and_nothing_is_let_go() -> None:
    world = HoldWorld()
    world.hold("a", "b")
    answer = world.send("release", topics=("a", "x"))
    assert (answer.kind, answer.code) == ("rejected", Code.NOT_HELD.value)
    assert world.of().topics == ("a", "b")


def test_by_topics_alone_one_lets_go_only_what_one_placed() -> None:
    world = HoldWorld()
    world.hold("a", "b")
    world.hold("a", subject="h2", source=BOB)
    answer = world.send("release", "nobody", topics=("b",), source=BOB)
    assert (answer.code, answer.message) == (Code.NOT_THE_HOLDER.value, "b is held by h1 of //ops/alice: because")
    assert "`recoveryctl release --id h1 --reason TEXT`" in (answer.hint or "")
    answer = world.send("release", "nobody", topics=("a",), source=BOB)
    assert (world.of("h2").state, world.of("h1").topics) == (State.COMPLETED, ("a", "b"))
    assert answer.message == "a released; but a is held by h1 of //ops/alice: because"


def test_by_topics_all_of_the_senders_holds_let_go_and_all_or_nothing() -> None:
    world = HoldWorld()
    world.hold("a")
    world.hold("a", "b", subject="h2")
    assert world.send("release", "nobody", topics=("a", "free")).code == Code.NOT_HELD.value
    assert set(world.holds.held) == {("main", "a"), ("main", "b")}
    world.send("release", "nobody", topics=("a",))
    assert (world.of("h1").state, world.of("h2").topics) == (State.COMPLETED, ("b",))


def test_a_release_of_nothing_and_of_something_else_is_refused() -> None:
    world = HoldWorld()
    assert world.send("release", "nobody").code == Code.NO_SUCH_RECOVERY.value
    world.feed(command("replay"))
    assert world.send("release", "r1", topics=("a",)).code == Code.NOT_FOR_THIS_KIND.value
    world.hold()
    assert world.send("pause").code == Code.NOT_FOR_THIS_KIND.value


def test_stop_ends_it_too() -> None:
    world = HoldWorld()
    world.hold()
    assert world.send("stop").kind == "accepted"
    assert (world.of().state, world.holds.held) == (State.STOPPED, {})
    assert world.send("stop").code == Code.NOT_IN_THIS_STATE.value


def test_it_expires_on_time_and_asks_to_be_woken_then() -> None:
    world = HoldWorld()
    decision = world.decider.decide(
        world.state, command("hold", "h1", spec=make_hold(expires_ms=NOW_MS + 60_000)), world.now_ms
    )
    assert WakeAt(NOW_MS + 60_000) in decision.effects
    world.hold(expires_ms=NOW_MS + 60_000)
    world.now_ms = NOW_MS + 59_999
    world.feed(Tick())
    assert world.of().state is State.RUNNING
    world.now_ms += 1
    world.feed(Tick())
    assert (world.of().state, world.holds.held) == (State.EXPIRED, {})
    assert world.about_holds() == ["hold_started", "hold_expired"]


def test_what_was_due_while_no_daemon_led_expires_at_take_over() -> None:
    world = HoldWorld()
    world.hold(expires_ms=NOW_MS + 60_000)
    world.hold("b", subject="h2")
    world.now_ms += 120_000
    world.restart_daemon(unread=lambda: None)
    assert (world.of().state, world.of("h2").state) == (State.EXPIRED, State.RUNNING)
    assert world.of().why == "its time is over: no release was read before"


def test_a_restart_forgets_nothing_and_keeps_the_order_of_holders() -> None:
    world = HoldWorld()
    world.hold("a", "b", subject="z-first")
    world.now_ms += 1_000
    world.hold("a", subject="a-second", source=BOB)
    world.send("release", "z-first", topics=("b",))
    before = world.holds
    world.restart_daemon()
    assert (world.holds.held, list(world.holds)) == (before.held, list(before))
    assert [by.hold for by in world.holds.held["main", "a"]] == ["z-first", "a-second"]


def test_a_topic_that_does_not_exist_is_told_once_and_again_when_it_does() -> None:
    world = HoldWorld()
    world.hold("a", "b")
    for _ in range(2):
        world.feed(OffsetsSampled((), (("main", "b"), ("other", "a"))))
    assert (world.of().missing, world.of().why.endswith("there is no topic b")) == (("b",), True)
    world.feed(OffsetsSampled(()))  # a look that did not ask for it says nothing about it
    assert world.of().missing == ("b",)
    world.feed(OffsetsSampled((TopicSample("main", "b", "id", {0: 0}, {0: 1}, {0: 1}, world.now_ms, 1),)))
    assert world.of().missing == ()
    assert world.about_holds() == ["hold_started", "hold_topics_seen", "hold_topics_seen"]


def test_what_ended_is_forgotten_later_and_what_holds_is_not() -> None:
    world = HoldWorld()
    world.hold("a")
    world.hold("b", subject="h2")
    world.send("release")
    world.now_ms += PARAMS.keep_terminal_ms + DAY_MS
    world.feed(ControlUnread())
    assert world.feed(Tick()).forgotten == ()
    world.feed(ControlRead())
    decision = world.feed(Tick())
    assert set(decision.forgotten) == {"h1"}
    assert [hold.id for hold in world.holds] == ["h2"]


def test_the_metric_counts_from_the_oldest_hold_of_a_topic() -> None:
    world = HoldWorld()
    world.hold("a")
    world.now_ms += 10_000
    world.hold("a", "b", subject="h2")
    world.now_ms += 1_000
    found = {s.labels: s.value for s in BOOK.gauges(world.state, world.now_ms) if s.metric is HELD_SECONDS}
    assert found == {("a",): 11.0, ("b",): 1.0}
    world.send("release", "h1")
    found = {s.labels: s.value for s in BOOK.gauges(world.state, world.now_ms) if s.metric is HELD_SECONDS}
    assert found == {("a",): 1.0, ("b",): 1.0}


def test_each_refusal_has_a_next_step() -> None:
    for code in (Code.TOPIC_HELD, Code.NOT_HELD, Code.NOT_THE_HOLDER, Code.TOO_MANY_HOLDS):
        assert code.next_step

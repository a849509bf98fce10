"""Random lives of recoveries whose topics are held and released, by several owners, with all the faults of
`test_decide_machine` between: commands lost, daemons that restart, applications that die.

The test keeps who holds what apart from the core. While a topic is held no recovery begins or goes on to write there;
what a hold paused goes on at release and nothing else does; a hold ends once, by its owner, its id or its time; and a
daemon that takes over knows the same holds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from recoveryd.holds.draft import HOLDS
from recoveryd.holds.model import Hold
from recoveryd.kernel.events import Tick
from recoveryd.kernel.states import TERMINAL, State
from recoveryd.recovery.slice import RECOVERY
from tests.builders.core import STATUS, command, make_hold
from tests.properties.test_decide_machine import Lives

HOLDS_IDS = st.sampled_from(["h1", "h2", "h3"])
SOURCES = st.sampled_from(["//ops/alice", "//ops/bob"])
TOPICS = st.lists(st.sampled_from(["flights.v2", "flights", "other"]), min_size=1, max_size=2, unique=True).map(tuple)


@dataclass
class Truth:
    """What the commands so far mean."""

    source: str
    topics: list[str]
    reads: bool
    expires_ms: int | None = None
    let_go: list[str] = field(default_factory=list)


class HeldLives(Lives):
    def __init__(self) -> None:
        super().__init__()
        self.truth: dict[str, Truth] = {}
        self.over: dict[str, Hold] = {}
        self.used: set[str] = set()

    @initialize()
    def a_replay_runs(self) -> None:
        self.replay("r1", False, False, "source", None)

    def send_as(self, source: str, verb: str, subject: str, **more: object) -> str:
        event = command(verb, subject, f"c{self.offset}", offset=self.offset, source=source, **more)  # type: ignore[arg-type]
        self.world.feed(event)
        self.offset += 1
        return next(a.kind for a in reversed(self.world.answers) if a.control_offset == event.offset)

    @rule(hold=HOLDS_IDS, source=SOURCES, topics=TOPICS, reads=st.booleans(), ttl_s=st.sampled_from([None, None, 30]))
    def hold(self, hold: str, source: str, topics: tuple[str, ...], reads: bool, ttl_s: int | None) -> None:
        expires_ms = None if ttl_s is None else self.world.now_ms + 1_000 * ttl_s
        answer = self.send_as(source, "hold", hold, spec=make_hold(*topics, reads=reads, expires_ms=expires_ms))
        assert answer == ("rejected" if hold in self.used else "accepted")
        if hold not in self.used:
            self.used.add(hold)
            self.truth[hold] = Truth(source, list(topics), reads, expires_ms)

    @rule(hold=HOLDS_IDS, source=SOURCES, topics=st.none() | TOPICS)
    def release_by_id(self, hold: str, source: str, topics: tuple[str, ...] | None) -> None:
        if hold not in self.used and topics is not None:  # an id that nothing has: the sender's holds are meant
            self.release_by_topics(source, topics, hold)
            return
        answer = self.send_as(source, "release", hold, topics=topics)
        truth = self.truth.get(hold)
        if truth is None:
            return
        if topics is not None and not set(topics) <= {*truth.topics, *truth.let_go}:
            assert answer == "rejected"
            return
        assert answer == "accepted"
        self._let_go([hold], truth.topics if topics is None else topics)

    @rule(source=SOURCES, topics=TOPICS, subject=st.just("nobody"))
    def release_by_topics(self, source: str, topics: tuple[str, ...], subject: str = "nobody") -> None:
        own = [name for name, truth in self.truth.items() if truth.source == source]
        may = all(any(topic in self.truth[name].topics for name in own) for topic in topics)
        assert self.send_as(source, "release", subject, topics=topics) == ("accepted" if may else "rejected")
        if may:
            self._let_go(own, topics)

    def _let_go(self, holds: Iterable[str], topics: Iterable[str]) -> None:
        gone = tuple(topics)
        for name in holds:
            truth = self.truth[name]
            truth.let_go += [topic for topic in truth.topics if topic in gone]
            truth.topics = [topic for topic in truth.topics if topic not in gone]
            if not truth.topics:
                del self.truth[name]

    @precondition(lambda self: self.truth)
    @rule(hold=HOLDS_IDS)
    def stop_a_hold(self, hold: str) -> None:
        if hold in self.used:
            answer = self.send_as("//ops/alice", "stop", hold)
            assert answer == ("accepted" if self.truth.pop(hold, None) else "rejected")

    @rule()
    def the_daemon_wakes(self) -> None:
        self.world.feed(Tick())

    @rule()
    def a_long_time_passes(self) -> None:
        self.world.now_ms += 40_000
        self.world.second()

    def _live(self) -> dict[str, Truth]:
        """Those whose time is over end at the next tick: till then both are right."""
        known = self.world.state.of(HOLDS).live
        for name, truth in list(self.truth.items()):
            if name not in known and truth.expires_ms is not None and truth.expires_ms <= self.world.now_ms:
                del self.truth[name]
        return self.truth

    @invariant()
    def what_is_held_is_what_the_commands_say(self) -> None:
        live = self._live()
        known = self.world.state.of(HOLDS)
        assert {hold.id: list(hold.topics) for hold in known.live.values()} == {n: t.topics for n, t in live.items()}
        index: dict[tuple[str, str], set[str]] = {}
        for name, truth in live.items():
            for topic in truth.topics:
                index.setdefault(("main", topic), set()).add(name)
        assert {topic: {by.hold for by in found} for topic, found in known.held.items()} == index

    def _keeps(self, recovery: object) -> bool:
        spec = recovery.spec  # type: ignore[attr-defined]
        return spec.copies and any(
            spec.target.topic in truth.topics or (truth.reads and spec.source.topic in truth.topics)
            for truth in self._live().values()
        )

    @invariant()
    def nothing_goes_on_to_write_where_a_topic_is_held(self) -> None:
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            if self._keeps(recovery) and not recovery.is_proving:
                assert recovery.state not in {State.STARTING, State.RUNNING}, recovery.why

    @invariant()
    def nothing_waits_for_a_release_that_has_come(self) -> None:
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            if recovery.state in {State.PAUSING, State.PAUSED} and recovery.held == "topic_held":
                assert self._keeps(recovery)

    @invariant()
    def a_hold_that_is_over_stays_over(self) -> None:
        for hold in self.world.state.of(HOLDS).ended.values():
            assert self.over.setdefault(hold.id, hold) == hold

    @invariant()
    def the_next_daemon_knows_the_same_holds(self) -> None:
        holds = self.world.state.of(HOLDS)
        folded = STATUS.fold(STATUS.encode(hold) for hold in holds).nouns
        restored = self.world.decider.restore(self.world.state.daemon, folded, {}).of(HOLDS)
        assert (dict(restored.live), restored.held) == (dict(holds.live), holds.held)

    def teardown(self) -> None:
        """Liveness: once every hold is released, what a hold had paused ends by itself."""
        self.world.failing, self.world.lost_effects = set(), False
        for app in self.world.applications.values():
            app.silent = False
        for name in list(self._live()):
            self.send_as("//ops/bob", "release", name)
        self.world.second(200)
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            is_by_hand = recovery.state is State.PAUSED and recovery.held == ""
            assert is_by_hand or recovery.state in {*TERMINAL, State.PLANNED} or recovery.plan is None or (
                recovery.plan.is_following
            ), recovery.why  # fmt: skip
        super().teardown()


HeldLives.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestHeldLives = HeldLives.TestCase

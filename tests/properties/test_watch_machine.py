"""Random lives of watches: groups that read, rewind and vanish, false samples, daemons that restart, webhooks that
fail. The test keeps what is true apart from the core.

A watch never ends as caught up unless the group really was, in every partition and at every look of the span; offsets
are reached only if they were seen; a webhook is called only for what the journal holds, always with the same delivery
id and body; a watch that has ended stays so.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from recoveryd.kernel.events import Tick
from recoveryd.kernel.states import State, StopReason
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.model import DeliveryState
from recoveryd.watches.spec import CallHook, Until, UntilCaughtUp, UntilOffsets, WatchSpec
from tests.builders.core import STATUS
from tests.builders.deciding import make_decider
from tests.builders.watch_world import PARAMS, PERIOD_MS, Topic, WatchWorld

PARTITIONS = st.sampled_from([0, 1])
NAMES = ("w0", "w1")
MOST_PER_S = 5_000
WEBHOOKS = st.sampled_from([None, "stop-it"])
SPAN_MS = PARAMS.caught_up_span_ms
UNTIL: st.SearchStrategy[Until] = st.sampled_from([
    UntilCaughtUp(), UntilCaughtUp(), UntilOffsets({"flights": {0: 40, 1: 20}}),
])  # fmt: skip


class WatchLives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = WatchWorld({"flights": Topic({0: 0, 1: None}, {0: 60, 1: 30})})
        self.there_since_ms: int | None = None  # since then, the group was really at the ends at every look
        self.seen_at: set[tuple[int, int]] = set()  # (partition, offset) at which the group really was at a look
        self.ended: dict[str, tuple[State, int]] = {}
        self.is_live = False
        self.said: dict[str, object] = {}
        self.epoch = 2
        self.sent = 0

    @initialize(is_live=st.booleans(), until=UNTIL, webhook=WEBHOOKS)
    def begin(self, is_live: bool, until: Until, webhook: str | None) -> None:
        self.is_live = is_live  # zero lag has no tolerance on a topic to which nobody writes
        self.send_watch("w0", until, webhook, None)

    @property
    def topic(self) -> Topic:
        return self.world.topics["flights"]

    @rule(
        name=st.sampled_from(NAMES),
        until=UNTIL,
        webhook=WEBHOOKS,
        in_ms=st.sampled_from([None, 120_000]),
    )
    def watch(self, name: str, until: Until, webhook: str | None, in_ms: int | None) -> None:
        self.send_watch(name, until, webhook, in_ms)

    def send_watch(self, name: str, until: Until, webhook: str | None, in_ms: int | None) -> None:
        deadline_ms = None if in_ms is None else self.world.now_ms + in_ms
        spec = WatchSpec(
            "main", "reports", ("flights",), until, None if webhook is None else CallHook(webhook), deadline_ms
        )
        self.world.send("watch", name, spec=spec)
        self.sent += 1

    @rule(verb=st.sampled_from(["stop", "pause", "resume"]))
    def command(self, verb: str) -> None:
        self.world.send(verb, "w1")
        self.sent += 1

    @rule(partition=PARTITIONS, records=st.integers(0, 60))
    def group_reads(self, partition: int, records: int) -> None:
        at = self.topic.committed.get(partition) or 0
        self.topic.committed[partition] = min(self.topic.ends[partition], at + records)

    @rule(count=st.integers(1, 25))
    def group_reads_all(self, count: int) -> None:
        self.topic.committed = dict(self.topic.ends)
        self.look(count)

    @rule(count=st.integers(1, 25))
    def group_leaves_one_record(self, count: int) -> None:
        self.topic.committed = {p: max(0, end - (p == 1)) for p, end in self.topic.ends.items()}
        self.look(count)

    @rule(partition=PARTITIONS, to=st.sampled_from([None, -1, 0, 10, 10**6]))
    def group_lies_or_rewinds(self, partition: int, to: int | None) -> None:
        self.topic.committed[partition] = to

    @precondition(lambda self: self.is_live)
    @rule(partition=PARTITIONS, records=st.integers(1, MOST_PER_S))
    def others_write(self, partition: int, records: int) -> None:
        self.topic.ends[partition] += records

    @rule(active=st.sampled_from([True, False, None]), hidden=st.sets(PARTITIONS), wrong_order=st.booleans())
    def looks_suffer(self, active: bool | None, hidden: set[int], wrong_order: bool) -> None:
        self.topic.is_active, self.topic.hidden, self.topic.ends_first = active, hidden, wrong_order

    @rule(count=st.integers(1, 25), period_ms=st.sampled_from([PERIOD_MS, PERIOD_MS, 1_000, 4 * PERIOD_MS]))
    def looks(self, count: int, period_ms: int) -> None:
        self.look(count, period_ms)

    def look(self, count: int, period_ms: int = PERIOD_MS) -> None:
        for _ in range(count):
            self._note_truth(self.world.now_ms + period_ms)
            self.world.look(after_ms=period_ms)

    def _note_truth(self, now_ms: int) -> None:
        topic = self.topic
        if all(topic.committed.get(p) == end for p, end in topic.ends.items()):
            self.there_since_ms = self.there_since_ms or now_ms
        else:
            self.there_since_ms = None
        for partition, at in topic.committed.items():
            if at is not None and 0 <= at <= topic.ends[partition] and partition not in topic.hidden:
                self.seen_at.add((partition, at))

    @rule(name=st.sampled_from(NAMES), status=st.sampled_from([200, 204, 404, 503, None]))
    def webhook_ends(self, name: str, status: int | None) -> None:
        self.world.webhook_ends(name, status)

    @rule()
    def daemon_restarts(self) -> None:
        self.world.restart(self.epoch)
        self.epoch += 1

    @rule()
    def same_input_gives_same_output(self) -> None:
        world = self.world
        for event in (Tick(), world.sampled("flights")):
            again = make_decider(PARAMS).decide(world.state, event, world.now_ms)
            assert again == world.decider.decide(world.state, event, world.now_ms)

    @invariant()
    def zero_lag_is_never_false(self) -> None:
        for watch in self.world.state.of(WATCHES):
            if watch.stop is None or watch.id in self.said or watch.stop.reason is not StopReason.ZERO_LAG:
                continue
            self.said[watch.id] = watch.stop
            if watch.stop.mode == "caught_up" and not self.is_live:
                assert self.there_since_ms is not None
                assert watch.stop.at_ms - self.there_since_ms >= SPAN_MS
            elif watch.stop.mode == "caught_up":
                left = [end - (self.topic.committed.get(p) or 0) for p, end in self.topic.ends.items()]
                assert max(left) <= 10 * MOST_PER_S
            else:
                assert isinstance(watch.spec.until, UntilOffsets)
                for partition, wanted in watch.spec.until.offsets["flights"].items():
                    assert any(p == partition and at >= wanted for p, at in self.seen_at)

    @invariant()
    def what_is_over_stays_over(self) -> None:
        for watch in self.world.state.of(WATCHES):
            before = self.ended.get(watch.id)
            assert before is None or before == (watch.state, watch.version)
            if watch.is_terminal:
                self.ended[watch.id] = (watch.state, watch.version)

    @invariant()
    def every_command_has_one_answer(self) -> None:
        assert len(self.world.answers) == self.sent

    @invariant()
    def a_webhook_says_one_thing_under_one_name(self) -> None:
        calls = {}
        for call in self.world.calls:
            assert calls.setdefault(call.watch, call) == call
            watch = self.world.watch(call.watch)
            assert watch.delivery is not None
            assert (watch.delivery.id, watch.spec.then) == (call.delivery, CallHook(call.webhook))

    @invariant()
    def a_completed_watch_did_what_was_asked(self) -> None:
        for watch in self.world.state.of(WATCHES):
            if watch.state is State.COMPLETED:
                assert watch.stop is not None
                delivered = watch.delivery is not None and watch.delivery.state is DeliveryState.DELIVERED
                assert delivered == (watch.spec.then is not None)

    @invariant()
    def the_journal_knows_all_that_a_next_daemon_needs(self) -> None:
        known = STATUS.fold(self.world.status.items()).nouns
        for watch in self.world.state.of(WATCHES):
            assert known[watch.id] == watch

    def teardown(self) -> None:
        """Liveness: once the group reads all and stays there, and webhooks answer, every watch ends."""
        self.topic.is_active, self.topic.hidden, self.topic.ends_first = True, set(), False
        for _ in range(40):
            self.topic.committed = dict(self.topic.ends)
            self.world.look()
        for name in NAMES:
            self.world.webhook_ends(name)
        assert [watch.why for watch in self.world.state.of(WATCHES) if not watch.is_terminal] == []


WatchLives.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestWatchLives = WatchLives.TestCase

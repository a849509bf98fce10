"""A consumer group that the core watches: a test sets positions and ends, moves the time, and chooses the outcome of
webhooks.

A restart goes through the status record: what is not in it is gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from recoveryd.kernel.decision import Answer, Decision, Notice
from recoveryd.kernel.events import BecameLeader, Event, Tick
from recoveryd.kernel.state import CoreState
from recoveryd.live.events import OffsetsSampled, ReaderSampled
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagParams, LagSample
from recoveryd.live.params import LiveParams
from recoveryd.recovery.params import Params
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.effects import CallWebhook
from recoveryd.watches.events import WebhookEnded
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import UntilCaughtUp, WatchSpec
from tests.builders.core import NOW_MS, STATUS, command
from tests.builders.deciding import make_decider
from tests.builders.world import check_fields

PERIOD_MS = 5_000
PARAMS = Params(
    own_topics=frozenset({"recovery.status.v1"}),
    live=LiveParams(lag=LagParams(period_ms=PERIOD_MS)),
)
CAUGHT_UP = WatchSpec("main", "reports", ("flights",), UntilCaughtUp())


@dataclass
class Topic:
    """Next offset the group committed (None = never) and log end of each partition."""

    committed: dict[int, int | None]
    ends: dict[int, int]
    starts: dict[int, int] = field(default_factory=dict)
    topic_id: str = "id-1"
    is_active: bool | None = True
    hidden: set[int] = field(default_factory=set)  # partitions the broker does not answer for
    stable: dict[int, int] = field(default_factory=dict)  # last stable offsets, as far as they are told
    ends_first: bool = False  # a broken collector, which asks in the wrong order


class WatchWorld:
    def __init__(self, topics: Mapping[str, Topic] | None = None, params: Params = PARAMS) -> None:
        self.decider = make_decider(params, frozenset({"stop-it"}))
        self.state = CoreState()
        self.now_ms = NOW_MS
        self.topics = dict(topics or {"flights": Topic({0: 0, 1: 0}, {0: 100, 1: 50})})
        self.missing: set[str] = set()
        self.answers: list[Answer] = []
        self.notices: list[Notice] = []
        self.calls: list[CallWebhook] = []
        self.offset = 0
        self.status: dict[bytes, bytes] = {}
        self.feed(BecameLeader(1, "control"))

    def feed(self, event: Event) -> Decision:
        decision = self.decider.decide(self.state, event, self.now_ms)
        self.state = decision.state
        self.answers += decision.answers
        self.notices += decision.notices
        check_fields(decision.notices)
        self.status.update(STATUS.encode(watch) for watch in decision.changed)
        self.calls += [effect for effect in decision.effects if isinstance(effect, CallWebhook)]
        return decision

    def send(self, verb: str, subject: str = "w1", **more: object) -> Answer:
        self.offset += 1
        self.feed(command(verb, subject, f"c{self.offset}", offset=self.offset, **more))
        return self.answers[-1]

    def start(self, spec: WatchSpec = CAUGHT_UP, subject: str = "w1", **changes: object) -> Watch:
        self.send("watch", subject, spec=replace(spec, **changes))  # type: ignore[arg-type]
        return self.watch(subject)

    def watch(self, subject: str = "w1") -> Watch:
        found = self.state.of(WATCHES).get(subject)
        assert found is not None, self.answers
        return found

    def told(self) -> list[str]:
        return [notice.type for notice in self.notices if notice.type.startswith(("watch", "webhook"))]

    def look(self, *names: str, after_ms: int = PERIOD_MS) -> None:
        """Let time pass; then the daemon ticks and the collector samples the topics."""
        self.now_ms += after_ms
        self.feed(Tick())
        self.feed(OffsetsSampled((), tuple(("main", name) for name in sorted(self.missing))))
        for name in names or tuple(self.topics):
            if name not in self.missing:
                self.feed(self.sampled(name))

    def looks(self, count: int) -> None:
        for _ in range(count):
            self.look()

    def sampled(self, name: str, group: str = "reports") -> ReaderSampled:
        topic = self.topics[name]
        position_ms, end_ms = self.now_ms - 100, self.now_ms - (200 if topic.ends_first else 50)
        samples = tuple(
            (
                p,
                LagSample(
                    topic.committed.get(p),
                    position_ms,
                    end,
                    end_ms,
                    topic.starts.get(p, 0),
                    topic.stable.get(p),
                    topic.topic_id,
                    topic.is_active,
                ),
            )
            for p, end in topic.ends.items()
            if p not in topic.hidden
        )
        return ReaderSampled(Reader("main", name, group), tuple(topic.ends), samples)

    def catch_up(self) -> None:
        for topic in self.topics.values():
            topic.committed = dict(topic.ends)

    def webhook_ends(self, subject: str = "w1", status: int | None = 204) -> None:
        self.feed(WebhookEnded(subject, status is not None and status < 300, status, 1, str(status)))

    def restart(self, epoch: int = 2, *, unread: bool = False) -> None:
        """Begin a new leader that knows only what the status topic holds. `unread`: it has yet to read what came
        meanwhile, which `ControlRead` ends.
        """
        folded = STATUS.fold(self.status.items())
        self.state = self.decider.restore(self.state.daemon, folded.nouns, {})
        self.feed(BecameLeader(epoch, "control", reads_control=unread))

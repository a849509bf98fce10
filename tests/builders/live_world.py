"""A world next to live traffic: a canary that answers each second, and a protected consumer group."""

from collections.abc import Callable
from dataclasses import replace

from recoveryd.kernel.decision import Notice
from recoveryd.kernel.states import State
from recoveryd.live.events import ReaderSampled, ReadingTaken
from recoveryd.live.freshness import Reading
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagParams, LagSample
from recoveryd.live.law.types import ControllerParams
from recoveryd.live.params import ControlParams, LiveParams
from recoveryd.live.pressure import Protection, SignalKind
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import Limits
from tests.builders.core import command, make_facts, make_spec
from tests.builders.world import PARAMS, World

MAX, MIN = 4_000.0, 40.0
BOARD = Reader("main", "departures", "board")
LATENCY = Protection("produce_latency", SignalKind.LATENCY, 0.2)
LAG = Protection("lag:board@departures", SignalKind.LAG, 30.0)


def make_params(*protections: Protection, pause_allowed: bool = True) -> Params:
    controller = ControllerParams(protections=protections or (LATENCY,), most_bytes_per_s=MAX)
    live = LiveParams(
        domains={"main": controller},
        lag=LagParams(),
        readers=frozenset({BOARD}),
        protected={BOARD: LAG.name},
        health=frozenset({("main", "produce_latency")}),
    )
    control = ControlParams(max_bytes_per_s=MAX, min_bytes_per_s=MIN, pause_allowed=pause_allowed)
    return replace(PARAMS, live=live, control=control)


class LiveWorld(World):
    """A world whose canary answers each second with `latency_s`, None = no telemetry."""

    def __init__(self, params: Params | None = None) -> None:
        self.latency_s: Callable[[], float] | None = lambda: 0.01
        super().__init__(make_facts((1_000_000, 1_000_000)), params or make_params())

    def live(self, seconds: int) -> None:
        for _ in range(seconds):
            if self.latency_s is not None:
                taken = Reading("produce_latency", self.latency_s(), self.now_ms + 1_000)
                self.now_ms += 1_000
                self.feed(ReadingTaken("main", taken))
                self.now_ms -= 1_000
            self.second()

    def copying(self, **limits: object) -> "LiveWorld":
        """Let live traffic become known, then start a replay."""
        self.live(70)
        self.feed(command("replay", spec=make_spec(limits=Limits(**limits))))  # type: ignore[arg-type]
        self.live(10)
        assert self.recovery().state is State.RUNNING
        return self

    def told(self, kind: str) -> list[Notice]:
        return [n for n in self.notices if n.type == kind]

    @property
    def rate(self) -> float | None:
        return self.recovery().effective_bytes_per_s

    @property
    def directive_rate(self) -> float | None:
        return self.directives[-1].max_bytes_per_s


def lag_look(at_ms: int, position: int | None, end: int, partitions: int = 1) -> ReaderSampled:
    """The collector's sample of the protected group: partition 0 of `partitions`."""
    sample = LagSample(position, at_ms - 10, end, at_ms)
    return ReaderSampled(BOARD, tuple(range(partitions)), ((0, sample),))

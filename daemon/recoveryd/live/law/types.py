"""The values of the throttle controller: its parameters, inputs, state and decision. The rules are in `rules` and
`controller`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from recoveryd.live.freshness import FreshnessParams, Reading, RejectReason, Track
from recoveryd.live.law.memory import Memory, Tried, WorkKind
from recoveryd.live.pressure import Pressure, Protection, SignalKind

SAFE_SHARE = 0.75  # of the rate at a cut: what was safe


class Rule(IntEnum):
    """The rules by number, as in docs/policies/throttle.md; a decision has the number of the rule that set its rate."""

    STALE = 1
    GATE = 2
    GUARD = 3
    SLOW_START = 4
    TRACK = 5
    NO_WINDUP = 6
    PUBLISH = 7
    PROTECT = 8
    FOREIGN = 9


class Law(StrEnum):
    """BUDGET is the controller; LAG_ONLY its simple stand-in where no produce latency is measured; ADDITIVE the same
    AIMD law on all signals. No config chooses the last one: the simulator compares the controller with it.
    """

    BUDGET = "budget"
    LAG_ONLY = "lag_only"
    ADDITIVE = "additive"


class ControlVerdict(StrEnum):
    """What a decision means to the operator, besides the rate."""

    PROTECTED = "protected"
    LATENCY_UNPROTECTED = "latency_unprotected"
    UNATTRIBUTABLE = "unattributable"
    BLIND = "blind"
    PAUSED = "paused"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class ControllerParams:
    """Frozen parameters of one budget domain (a broker, or a cluster as a whole). Times in ms, rates in bytes/s.

    `displacement`: how many bytes of replay do as much work as one byte of live traffic. Gains are per loop delay, so
    they hold for any delay. `some_left_out`: not all that is listed to be protected counts now; `all_left_out`: nothing
    of it does.
    """

    protections: tuple[Protection, ...] = ()
    target: float = 0.6  # share of the SLO to aim at; 0.4 for critical live traffic
    displacement: float = 1.5
    period_ms: int = 2_000
    loop_delay_ms: int = 12_000
    measure_delay: bool = True
    cut_latency_ms: int = 2_000  # until a cut reaches the lanes
    raise_latency_ms: int = 2_000  # until a raise reaches the lanes
    gain_up: float = 0.2
    gain_down: float = 1.0
    dead_band: float = 0.05
    step_least: float = 0.25
    step_most: float = 1.25
    start_share: float = 0.10
    raw_guard: float = 1.1  # a critical signal counts as this much of its SLO
    doubted_most: float = 2.0  # a latency this far over its SLO is never doubted
    stale_factor: float = 0.8
    lost_after_ms: int = 300_000
    additive_share: float = 0.008
    additive_cut: float = 0.5
    additive_threshold: float = 0.5  # of the SLO of time lag, LAG_ONLY
    achieved_least: float = 0.8
    raise_band: float = 1.05
    cut_band: float = 0.95
    law: Law = Law.BUDGET
    some_left_out: bool = False
    all_left_out: bool = False
    most_bytes_per_s: float = math.inf  # of all claims together, whatever each may take
    place: float = 0.0  # another number for each cluster and set of queries; what is remembered holds for one; 0 = any
    freshness: FreshnessParams = FreshnessParams()

    @property
    def effective_law(self) -> Law:
        """LAG_ONLY instead of BUDGET where no latency is measured, because BUDGET would then see harm too late; the
        verdict says so.
        """
        watched = any(p.kind is SignalKind.LATENCY for p in self.protections)
        return Law.LAG_ONLY if self.law is Law.BUDGET and not watched else self.law


class Trial(NamedTuple):
    """A cut, and what it was an answer to: the rate before it, and the pressure. `same`: samples taken since that show
    the same pressure. `used`: what lanes used then, where that was less than they had.
    """

    rate: float
    share: float
    same: int = 0
    used: float | None = None


class RiseCause(NamedTuple):
    """What is known of why a signal is over its SLO. `doubted_ms`: a rise that we did not cause was seen, and waits for
    a second sample. `foreign_ms`: a cut changed nothing and was taken back. `ours_ms`: it turned out to be us.
    """

    doubted_ms: int | None = None
    trial: Trial | None = None
    foreign_ms: int | None = None
    ours_ms: int | None = None


class Use(NamedTuple):
    """About a loop delay from `at_ms` on: the most that lanes used in it, and the least that they were granted."""

    at_ms: int
    most: float
    granted: float


class AtRate(NamedTuple):
    """What a signal showed at rates of one step: so many samples, `over` of them over its SLO, where old ones count for
    less; and the `newest` ones as (ms, share of the SLO).
    """

    samples: float = 0.0
    over: float = 0.0
    newest: tuple[tuple[int, float], ...] = ()


Counted = Mapping[int, AtRate]  # of one signal, by step of rate


@dataclass(frozen=True, slots=True)
class Inputs:
    """What one step is told. `readings` in any order; old ones may be repeated. `floor` is 0 if pausing is allowed.

    `ingress_since_ms`: since when the ingress has been measured of the same topics by the same record sizes; values
    from before cannot be compared with it. `ceiling` is what all claims together can use: a measured ceiling or an
    operator's cap. The start is a share of it, so an infinite one counts as not known and allows only the floor.
    `active`: some recovery of the domain wants to copy or to compare. `work`: of all of them together.
    `achieved_bytes_per_s`: what lanes use at least, None = not known; with `all_heard` it is all that they use.
    `needed_bytes_per_s`: what has to be granted so that each lane has what it uses; more where lanes use their parts
    unevenly.
    """

    readings: tuple[Reading, ...]
    ingress: Reading | None
    achieved_bytes_per_s: float | None
    floor_bytes_per_s: float
    ceiling_bytes_per_s: float
    active: bool = True
    work: WorkKind = WorkKind.WRITE
    ingress_since_ms: int | None = None
    all_heard: bool = True
    needed_bytes_per_s: float = 0.0


class PressedSignal(NamedTuple):
    """Of one signal, with shares of its SLO: since `since_ms` it was `share` and did not get less than that by much.
    `least` is the least of this time, from `least_ms`, which is no earlier.
    """

    since_ms: int
    share: float
    least_ms: int
    least: float


class Pressed(NamedTuple):
    """Live traffic was over an SLO at each step of late, with the rate at the floor. `signals`: those that are over
    theirs now, by name.
    """

    signals: Mapping[str, PressedSignal]

    @property
    def unchanged_ms(self) -> int:
        """Since when one that is over its SLO has not become much less."""
        return min(signal.since_ms for signal in self.signals.values())

    def unmoved(self, now_ms: int, for_ms: int) -> frozenset[str]:
        """Those over their SLO that have not become less at all for so long."""
        return frozenset(name for name, signal in self.signals.items() if now_ms - signal.least_ms >= for_ms)


@dataclass(frozen=True, slots=True)
class ControllerState:
    """Soft state: lost at a restart, but for `memory`, which is journaled. `rate` = `budget` less what live traffic
    displaces; all in bytes/s.

    `cut_ms`: only samples taken later are used. `comfortable`: the last rate that was safe, which may be returned to
    quickly; None = not known. `stepped_ms`: the last step. `informed_ms`: the last step with new samples. Times are
    None until they happen.
    """

    budget: float = 0.0
    rate: float = 0.0
    published: float = 0.0
    displaced: float | None = None  # displacement * live ingress, as subtracted now; None = the ingress is not known
    active: bool = False
    stepped_ms: int | None = None
    informed_ms: int | None = None
    cut_ms: int | None = None
    guarded_ms: int | None = None
    comfortable: float | None = None
    probing_ms: int | None = None  # since when the rate has gone on beyond the comfortable one
    causes: Mapping[str, RiseCause] = field(default_factory=dict)  # by signal
    begun_ms: int | None = None  # the first recovery of those that run
    used_ms: int | None = None  # since when lanes copy, or should
    uses: tuple[Use, ...] = ()  # of the last minutes, the oldest first
    woken_ms: int | None = None  # when lanes began to use what had stood unused
    leapt_ms: int | None = None  # when it began at a rate that was safe before, in one step, and was not cut since
    alarmed: frozenset[str] = frozenset()  # signals whose newest sample somebody called critical
    memory: Memory = Memory()
    tried: tuple[Tried, ...] = ()  # rates of the last loop delay, of which it is not known yet whether they were safe
    is_stale: bool = False
    decayed: Mapping[str, int] = field(default_factory=dict)  # by signal that was stale: later samples may raise a rate
    is_unseen: bool = False  # a signal was never measured yet: the start still has to come
    floor: float = 0.0  # of the last step
    floor_since_ms: int | None = None
    pressed: Pressed | None = None  # over an SLO at the floor
    dropped: Mapping[str, float] = field(default_factory=dict)  # seconds that each signal left out showed then
    tracks: Mapping[str, Track] = field(default_factory=dict)
    ingress: Track = Track()
    ingress_since_ms: int | None = None
    baselines: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    counted: Mapping[str, Counted] = field(default_factory=dict)  # by signal, under this kind of work
    work: WorkKind = WorkKind.WRITE
    work_ms: int | None = None  # since when, if the kind changed while some recovery was active
    left: Tried | None = None  # the kind of work before that, with its last rate
    untold_ms: int | None = None  # only samples taken later tell how much this kind of work may have
    put_by: Mapping[WorkKind, Mapping[str, Counted]] = field(default_factory=dict)  # counted under other kinds of work
    publications: tuple[tuple[int, float], ...] = ()
    rejections: Mapping[RejectReason, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlDecision:
    """One control decision with everything it was made from. `rate_bytes_per_s` is the published budget to share out, 0
    with `pause`.

    `publish`: it differs enough from the last one to be told to lanes at once. `pressure`: share of the SLO used by the
    worst signal, None = no usable sample.
    """

    rate_bytes_per_s: float
    publish: bool
    pause: bool
    rule: Rule
    verdict: ControlVerdict
    why: str
    pressure: float | None
    pressures: tuple[Pressure, ...]
    budget_bytes_per_s: float
    wanted_bytes_per_s: float
    ingress_bytes_per_s: float | None
    achieved_bytes_per_s: float | None
    loop_delay_ms: int
    oldest_age_ms: int | None

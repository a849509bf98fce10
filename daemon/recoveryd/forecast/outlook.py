"""Verdicts of a forecast: what the numbers mean, why, and what would help."""

import math
from dataclasses import dataclass
from enum import StrEnum

NEVER_RATIO = 1.05
SLOW_SPEED_UP = 2.0
MARGINAL_SPEED_UP = 5.0
SHORT_S = 600.0  # what takes no longer at worst is not slow, however fast its window was written
_DAY_S = 86_400.0


class Outlook(StrEnum):
    """Worst first: lost data is worse than lost time."""

    RETENTION_LOSS = "retention_loss"
    IMPRACTICAL_NEVER = "impractical_never"
    IMPRACTICAL_SLOW = "impractical_slow"
    DEADLINE_MISS = "deadline_miss"
    MARGINAL = "marginal"
    OK = "ok"

    @property
    def rank(self) -> int:
        """0 = worst."""
        return list(Outlook).index(self)


@dataclass(frozen=True, slots=True)
class Situation:
    """The numbers that a verdict is made from, named as in `completion`."""

    is_moving: bool
    backlog: float
    window_s: float
    lanes: int | None
    replay: float
    live: float
    seconds: float
    seconds_hi: float
    speed_up: float
    loss_in_s: float
    lost_data_s: float
    required_rate: float | None
    deadline_s: float | None


def all_outlooks(s: Situation) -> tuple[Outlook, ...]:
    """Every verdict that applies, worst first; OK if none does. Any rate reaches a pinned end, so that never gets
    `impractical_never`. A short copy is not slow: records that were written in one go span no time to compare it with.
    """
    if s.backlog <= 0:
        return (Outlook.OK,)
    is_long = s.seconds_hi > SHORT_S
    applies = {
        Outlook.RETENTION_LOSS: s.lost_data_s > 0 or (s.loss_in_s < math.inf and s.loss_in_s <= s.seconds),
        Outlook.IMPRACTICAL_NEVER: s.is_moving and s.replay <= NEVER_RATIO * s.live,
        Outlook.IMPRACTICAL_SLOW: is_long and s.speed_up <= SLOW_SPEED_UP,
        Outlook.DEADLINE_MISS: s.deadline_s is not None and s.seconds > s.deadline_s,
        Outlook.MARGINAL: (is_long and SLOW_SPEED_UP < s.speed_up <= MARGINAL_SPEED_UP) or math.isinf(s.seconds_hi),
    }
    return tuple(outlook for outlook, does in applies.items() if does) or (Outlook.OK,)


def suggest(outlook: Outlook, s: Situation) -> tuple[str, str]:
    """(why, suggestion), one sentence each; the suggestion is empty for OK."""
    match outlook:
        case Outlook.RETENTION_LOSS:
            return _retention(s)
        case Outlook.IMPRACTICAL_NEVER:
            why = f"the head moves at {s.live:,.0f}/s and the replay at {s.replay:,.0f}/s: it never catches up"
            return (
                why,
                f"{_faster(s, SLOW_SPEED_UP)}; or pin the end (`to: latest`), then it takes {_span(_pinned_s(s))}",
            )
        case Outlook.IMPRACTICAL_SLOW:
            return _slow(s)
        case Outlook.DEADLINE_MISS:
            why = f"it takes {_span(s.seconds)}, the deadline is in {_span(s.deadline_s or 0.0)}"
            return why, f"{_rate(s, s.required_rate or math.inf)} would make it; {_fits(s)}"
        case Outlook.MARGINAL:
            why = (
                f"at {s.speed_up:.2f} times real time it takes {_span(s.seconds)}, small changes of the rates "
                f"make it {_span(s.seconds_hi)}"
            )
            return why, f"{_faster(s, MARGINAL_SPEED_UP)} for a safe margin"
        case Outlook.OK:
            is_told = MARGINAL_SPEED_UP < s.speed_up < math.inf
            fast = f"{s.speed_up:,.0f} times real time: " if is_told else "it takes "
            return f"{fast}{_span(s.seconds)}", ""


def _retention(s: Situation) -> tuple[str, str]:
    if s.lost_data_s > 0:
        why = f"retention deletes {_span(s.lost_data_s)} of data before the job has started"
        return (
            why,
            f"raise retention by at least {_span(s.lost_data_s)} before starting, or start that much later in the log",
        )
    why = f"retention reaches the position in {_span(s.loss_in_s)}, the copy takes {_span(s.seconds)}"
    missing = s.seconds - s.loss_in_s
    raised = f"by {_span(missing)}" if math.isfinite(missing) else "for as long as it runs"
    return why, f"raise retention {raised} before starting, or start later in the log"


def _slow(s: Situation) -> tuple[str, str]:
    part = s.seconds / s.window_s if s.window_s > 0 else math.inf
    why = (
        f"at {s.speed_up:.2f} times real time it takes {_span(s.seconds)}, {part:.2f} times the window of "
        f"{_span(s.window_s)}"
    )
    if not s.is_moving and s.speed_up <= 1:
        why += "; a new backlog as long as the window will have formed by then"
    return why, f"{_faster(s, SLOW_SPEED_UP)}; {_fits(s)}"


def _faster(s: Situation, speed_up: float) -> str:
    historical = s.replay / s.speed_up if 0 < s.speed_up < math.inf else s.live
    return f"more than {_rate(s, speed_up * max(historical, s.live))} is needed"


def _rate(s: Situation, rate: float) -> str:
    """The text of a rate, with how many lanes would give it if their rates add up."""
    if not s.lanes or s.replay <= 0 or not math.isfinite(rate):
        return f"{rate:,.0f}/s"
    return f"{rate:,.0f}/s ({math.ceil(rate * s.lanes / s.replay)} lanes instead of {s.lanes})"


def _fits(s: Situation) -> str:
    """The text of the window that the present rate can copy by the deadline, or in a day."""
    within_s = s.deadline_s if s.deadline_s is not None else _DAY_S
    historical = s.backlog / s.window_s if s.window_s > 0 else 0.0
    gain = s.replay - s.live if s.is_moving else s.replay
    if gain <= 0 or historical <= 0:
        return "no window fits at this rate"
    return f"a window of {_span(within_s * gain / historical)} fits into {_span(within_s)}"


def _pinned_s(s: Situation) -> float:
    return s.backlog / s.replay if s.replay > 0 else math.inf


def _span(seconds: float) -> str:
    if math.isinf(seconds):
        return "for ever"
    for unit, size in (("d", _DAY_S), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"

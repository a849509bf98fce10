"""What controllers know that outlives the daemon, as plain JSON values in the daemon's own record: by domain the safe
rates by hour of the day and kind of work, for which signals and SLOs they were safe, and when one was last too high; of
each signal the latency at rest and the highest one at rest, which tells noise. The place tells whether the name means
the same cluster and queries still.

A restart or the next recovery begins there instead of with a minute at the floor. What cannot be read is forgotten; it
is never more than a hint, which fresh samples must confirm before a rate rises.
"""

import math
from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from recoveryd.kernel.state import Numbers
from recoveryd.live.law.memory import HOUR_MS, HOURS, Memory
from recoveryd.live.law.types import ControllerState
from recoveryd.live.pressure import BASELINE_AT_LEAST

KEY: Final = "live"
EVERY_MS: Final = 60_000
_CHANGED: Final = 0.1
_DOMAINS_MOST: Final = 1_000
_ID: Final = "id"


def begun(kept: Mapping[str, Any], domain: str, place: float = 0.0) -> ControllerState:
    """The state of a controller of which nothing is known but what was kept, of the same `place`."""
    found = _mapping(_mapping(kept.get(KEY)).get(domain))
    if _numbers(found.get("place")).get(_ID, place) != place:
        return ControllerState()
    peaks = _numbers(found.get("rest_most"))
    rest = {name: _samples(usual_s, peaks.get(name)) for name, usual_s in _numbers(found.get("rest")).items()}
    return ControllerState(memory=_memory(found), baselines=rest)


def _memory(found: Mapping[str, Any]) -> Memory:
    harm_ms = _numbers(found.get("harm")).get("ms")
    safe, safe_read = (_hours(found.get(kind)) for kind in ("safe", "safe_read"))
    return Memory(safe, safe_read, None if harm_ms is None else int(harm_ms), _numbers(found.get("protects")))


def _hours(value: object) -> dict[int, float]:
    return {int(h): r for h, r in _numbers(value).items() if h.isdecimal() and int(h) < HOURS}


def _samples(usual_s: float, most_s: float | None) -> tuple[float, ...]:
    """A baseline with this median and this maximum; the latter is among the first to be forgotten."""
    usual = (usual_s,) * BASELINE_AT_LEAST
    return usual if most_s is None or most_s <= usual_s else (most_s, *usual)


def kept_of(states: Mapping[str, ControllerState], places: Mapping[str, float] | None = None) -> dict[str, Numbers]:
    """What to keep of these controllers; a domain of which nothing is known is left out. `places`: by domain."""
    found = {domain: _of(state) for domain, state in list(states.items())[:_DOMAINS_MOST]}
    told = {domain: {"place": {_ID: place}} for domain, place in (places or {}).items() if place}
    return {domain: {**known, **told.get(domain, {})} for domain, known in found.items() if any(known.values())}


def is_worth_keeping(kept: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether any number is new or differs by a tenth, or a time by an hour."""
    before = _flat(kept.get(KEY))
    return any(
        abs(value - before.get(key, 0.0)) > _least(key[1], before.get(key, 0.0)) for key, value in _flat(now).items()
    )


def _least(kind: str, before: float) -> float:
    """By how much a number of this kind differs at least from one that is worth keeping."""
    match kind:
        case "harm":
            return HOUR_MS
        case "place":
            return 0.0
        case _:
            return _CHANGED * before


def has_fallen(kept: Mapping[str, Any], states: Mapping[str, ControllerState]) -> bool:
    """Whether a rate turned out to be too high, or lower ones are safe than was kept: a restart must know it."""
    found = _mapping(kept.get(KEY))
    both = ((_memory(_mapping(found.get(domain))), state.memory) for domain, state in states.items())
    return any(
        _is_less(now.safe, was.safe) or _is_less(now.safe_read, was.safe_read) or _is_new(now.harm_ms, was.harm_ms)
        for was, now in both
    )


def _is_new(harm_ms: int | None, before_ms: int | None) -> bool:
    return harm_ms is not None and (before_ms is None or harm_ms - before_ms > HOUR_MS)


def _is_less(now: Mapping[int, float], before: Mapping[int, float]) -> bool:
    return any(now.get(hour, rate) < (1 - _CHANGED) * rate for hour, rate in before.items())


def _of(state: ControllerState) -> Numbers:
    rest = {name: s for name, s in state.baselines.items() if len(s) >= BASELINE_AT_LEAST}
    knows_safe = state.memory.safe or state.memory.safe_read
    return {
        "safe": _rates(state.memory.safe),
        "safe_read": _rates(state.memory.safe_read),
        "protects": dict(sorted(state.memory.protects.items())) if knows_safe else {},
        "harm": {} if state.memory.harm_ms is None else {"ms": float(state.memory.harm_ms)},
        "rest": {name: round(median(samples), 6) for name, samples in sorted(rest.items())},
        "rest_most": {name: round(max(samples), 6) for name, samples in sorted(rest.items())},
    }


def _rates(by_hour: Mapping[int, float]) -> dict[str, float]:
    return {str(hour): float(round(rate)) for hour, rate in sorted(by_hour.items()) if rate >= 1}


def _flat(kept: object) -> dict[tuple[str, str, str], float]:
    return {
        (domain, kind, key): value
        for domain, found in _mapping(kept).items()
        for kind in ("safe", "safe_read", "protects", "harm", "rest", "rest_most", "place")
        for key, value in _numbers(_mapping(found).get(kind)).items()
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _numbers(value: object) -> dict[str, float]:
    """Positive finite numbers only."""
    found = {str(k): float(v) for k, v in _mapping(value).items() if isinstance(v, int | float)}
    return {k: v for k, v in found.items() if math.isfinite(v) and v > 0}

"""How fast a recovery may go: unlimited, at a fixed rate, or as the controller of its domains grants (`limits.mode`).

The mode follows from what was asked for and from what is protected where the recovery reads and writes. Rates of the
first two are set here; those of the third by `recoveryd.recovery.throttling`, which starts at the floor.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final

from recoveryd.kernel.replacing import replaced
from recoveryd.live.budget_shares import Claim
from recoveryd.live.budgets import Mode
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import Limits, Spec

UNDECIDED: Final = "at the floor until the controller has decided"
UNDIVIDED: Final = "at the floor until control.max_bytes_per_s is divided anew"
_DEFAULTS: Final = asdict(Limits())


def clusters_of(spec: Spec) -> tuple[str, ...]:
    """Those that the recovery loads, each once. Each byte passes through both, and counts fully in both."""
    return tuple(dict.fromkeys((spec.source.cluster, spec.target.cluster)))


def touched_domains(spec: Spec, params: Params) -> tuple[str, ...]:
    """The budget domains that the recovery loads."""
    return tuple(cluster for cluster in clusters_of(spec) if cluster in params.live.domains)


def mode_of(limits: Limits, spec: Spec, params: Params) -> Mode:
    """The mode in force. Fixed mode without a rate is unlimited; unlimited mode with a rate is fixed."""
    by_rate = Mode.UNLIMITED if limits.max_bytes_per_s is None and limits.max_records_per_s is None else Mode.FIXED
    if limits.mode is not None:
        return Mode.CONTROLLED if limits.mode == "controller" else by_rate
    default = params.control.default_mode
    if default == "controller" or (default == "auto" and touched_domains(spec, params)):
        return Mode.CONTROLLED
    return by_rate


def changed_limits(before: Limits, changes: Mapping[str, float | str | None]) -> Limits:
    """`before` with the limits that a throttle names; None sets a limit's default. Mode unlimited lifts both rates."""
    lifted = {"max_bytes_per_s": None, "max_records_per_s": None} if changes.get("mode") == "unlimited" else {}
    named = {name: _DEFAULTS[name] if value is None else value for name, value in {**lifted, **changes}.items()}
    return replace(before, **named)  # type: ignore[arg-type]


def lacks_rate(limits: Limits) -> bool:
    """Whether the mode is fixed, but no rate is given."""
    return limits.mode == "fixed" and limits.max_bytes_per_s is None and limits.max_records_per_s is None


def floor_bytes_per_s(recovery: Recovery, params: Params, least: float | None = None) -> float:
    """The least rate of a controlled recovery: `least` (its part of the configured floor), or while it copies the rate
    that beats retention if that is higher; at most its ceiling.
    """
    plan = recovery.plan
    needed = plan.retention_bytes_per_s if plan is not None and not recovery.is_proving else 0.0
    least = params.control.min_bytes_per_s if least is None else least
    return min(ceiling_bytes_per_s(recovery.limits, params), max(least, needed))


def ceiling_bytes_per_s(limits: Limits, params: Params) -> float:
    """The most that a controlled recovery may be granted."""
    most = params.control.max_bytes_per_s
    return most if limits.max_bytes_per_s is None else min(most, limits.max_bytes_per_s)


def claim_of(recovery: Recovery, params: Params, least: float) -> Claim:
    """What a controlled recovery wants of a budget; `least`: its part of the configured floor."""
    limits, ceiling = recovery.limits, ceiling_bytes_per_s(recovery.limits, params)
    return Claim(floor_bytes_per_s(recovery, params, least), ceiling, limits.weight, limits.tier)


def at_floor_at_most(recovery: Recovery, params: Params) -> Recovery:
    """The recovery in controller mode with no more than its floor: others may have the rest of the budget by now. As it
    is in other modes.
    """
    held = recovery.effective_bytes_per_s
    if mode_of(recovery.limits, recovery.spec, params) is not Mode.CONTROLLED or held is None:
        return recovery
    floor = floor_bytes_per_s(recovery, params)
    if held <= floor:
        return recovery
    return replaced(recovery, effective_bytes_per_s=floor, rule=_undecided(recovery.spec, params))


def with_limits(recovery: Recovery, limits: Limits, params: Params, why: str = "") -> Recovery:
    """The recovery with these limits, and the rate (with its sentence) that holds until a budget is divided the next
    time. In controller mode it is no more than it had of the budget before: only a step, which tells the others too,
    may raise it.
    """
    mode = mode_of(limits, recovery.spec, params)
    if mode is Mode.CONTROLLED:
        was_controlled = mode_of(recovery.limits, recovery.spec, params) is Mode.CONTROLLED
        held = recovery.effective_bytes_per_s if was_controlled else None
        floor = floor_bytes_per_s(replace(recovery, limits=limits), params)
        rate = floor if held is None else min(ceiling_bytes_per_s(limits, params), held)
        rule = why or _undecided(recovery.spec, params)
        return replaced(recovery, limits=limits, effective_bytes_per_s=rate, rule=rule)
    default = "no limit was asked for" if mode is Mode.UNLIMITED else "as the command asked"
    if touched_domains(recovery.spec, params):
        default += ": live traffic is not protected"
    return replaced(recovery, limits=limits, effective_bytes_per_s=limits.max_bytes_per_s, rule=why or default)


def _undecided(spec: Spec, params: Params) -> str:
    return UNDECIDED if touched_domains(spec, params) else UNDIVIDED

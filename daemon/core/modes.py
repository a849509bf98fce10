"""How fast a recovery may go: unlimited, at a fixed rate, or as the controller of its domains grants (`limits.mode`).

The mode follows from what was asked for and from what is protected where the recovery reads and writes. Rates of the first two are said here once; those of
the third are `daemon.core.throttling`'s, which starts at the floor.
"""

from dataclasses import replace

from daemon.core.commands import Limits, ReplaySpec
from daemon.core.model import Recovery
from daemon.core.params import Params
from daemon.core.policies.throttle import Mode


def touched_domains(spec: ReplaySpec, params: Params) -> tuple[str, ...]:
    """The budget domains that the recovery loads. Each of its bytes passes through both clusters, so each counts whole in both."""
    clusters = dict.fromkeys((spec.source.cluster, spec.target.cluster))
    return tuple(cluster for cluster in clusters if cluster in params.live.domains)


def mode_of(limits: Limits, spec: ReplaySpec, params: Params) -> Mode:
    """The mode in force. A fixed mode whose rate was lifted is unlimited, an unlimited one that was given a rate is fixed."""
    by_rate = Mode.UNLIMITED if limits.max_bytes_per_s is None and limits.max_records_per_s is None else Mode.FIXED
    if limits.mode is not None:
        return Mode.CONTROLLED if limits.mode == "controller" else by_rate
    default = params.control.default_mode
    if default == "controller" or (default == "auto" and touched_domains(spec, params)):
        return Mode.CONTROLLED
    return by_rate


def ceiling_bytes_per_s(limits: Limits, params: Params) -> float:
    """The most that a controlled recovery may be granted."""
    most = params.control.max_bytes_per_s
    return most if limits.max_bytes_per_s is None else min(most, limits.max_bytes_per_s)


def with_limits(recovery: Recovery, limits: Limits, params: Params, why: str = "") -> Recovery:
    """The recovery under these limits, with the rate that holds from now on until a controller says more, and the sentence of it."""
    mode = mode_of(limits, recovery.spec, params)
    if mode is Mode.CONTROLLED:
        ceiling = ceiling_bytes_per_s(limits, params)
        if touched_domains(recovery.spec, params):
            was_controlled = mode_of(recovery.limits, recovery.spec, params) is Mode.CONTROLLED
            floor = min(ceiling, params.control.min_bytes_per_s)
            held = recovery.effective_bytes_per_s if was_controlled else None
            rate = floor if held is None else min(ceiling, held)
            rule = why or "at the floor until the controller has decided"
        else:
            rate, rule = ceiling, why or "no protected cluster is touched: its own ceiling"
        return replace(recovery, limits=limits, effective_bytes_per_s=rate, rule=rule)
    default = "no limit was asked for" if mode is Mode.UNLIMITED else "as the command asked"
    if touched_domains(recovery.spec, params):
        default += ": live traffic is not protected"
    return replace(recovery, limits=limits, effective_bytes_per_s=limits.max_bytes_per_s, rule=why or default)

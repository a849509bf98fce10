"""What each capability gets from the config: one function for each that has numbers of its own.

What several need alike (names of clusters, units, how long ended things are kept) is given to each of them here, so
that none has to ask another one for it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from recoveryd.holds.params import HoldParams
from recoveryd.live.params import LiveParams
from recoveryd.params import CapabilityParams, KeptParams, KnownUnitParams, NameParams
from recoveryd.recovery.params import LEAVE_FACTOR, Params, head_grace_ms
from recoveryd.schedules.params import ScheduleParams
from recoveryd.settings.model import SettingsModel
from recoveryd.settings.protecting import make_control_params, make_live_params
from recoveryd.units.model import Unit
from recoveryd.watches.params import WatchParams
from recoveryd.workflows.model.params import WorkflowParams

_SAMPLES_MOST = 200


def make_params(values: SettingsModel, own_topics: frozenset[str], units: Mapping[str, Unit]) -> CapabilityParams:
    """`own_topics`: the names of recoveryd's own topics."""
    names = NameParams(clusters=frozenset(values.clusters), own_topics=own_topics)
    limits = values.limits
    kept = KeptParams(keep_terminal_ms=limits.keep_terminal, keep_terminal_most=limits.keep_terminal_most)
    known = KnownUnitParams(units=units, approvals=values.approval_rules)
    live = make_live_params(values.monitor, values.control, values.clusters)
    kept_samples = _kept_samples(values.chunk.max_interval, values.monitor.interval)
    live = replace(live, sample_history=max(live.sample_history, kept_samples))
    return CapabilityParams(
        live=live,
        units=units,
        holds=HoldParams(**names, **kept),
        recoveries=_recoveries(values, names, kept, known, live),
        watches=_watches(values, names, kept, known, live),
        workflows=_workflows(values, names, kept, known, live),
        schedules=ScheduleParams(**kept),
    )


def _kept_samples(chunk_max_ms: int, period_ms: int) -> int:
    """So many samples of a topic that they reach back to where it has to be looked up whether a copy keeps up, or still
    does. Looks that are closer together than a second may be too many for that.
    """
    return min(_SAMPLES_MOST, math.ceil(LEAVE_FACTOR * head_grace_ms(chunk_max_ms, period_ms) / period_ms) + 3)


def _watches(
    values: SettingsModel, names: NameParams, kept: KeptParams, known: KnownUnitParams, live: LiveParams
) -> WatchParams:
    return WatchParams(**names, **kept, **known, live=live, webhooks=frozenset(values.webhooks))


def _workflows(
    values: SettingsModel, names: NameParams, kept: KeptParams, known: KnownUnitParams, live: LiveParams
) -> WorkflowParams:
    return WorkflowParams(
        **names,
        **kept,
        **known,
        live=live,
        approval_ttl_ms=values.approval.ttl,
        approval_above_bytes=values.approval.above_bytes,
        approval_above_records=values.approval.above_records,
        planning_deadline_ms=values.limits.planning_deadline,
        closing_deadline_ms=values.limits.closing_deadline,
    )


def _recoveries(
    v: SettingsModel, names: NameParams, kept: KeptParams, known: KnownUnitParams, live: LiveParams
) -> Params:
    return Params(
        **names,
        **kept,
        **known,
        live=live,
        profiles=frozenset(v.profiles),
        max_active_recoveries=v.limits.max_active_recoveries,
        planning_deadline_ms=v.limits.planning_deadline,
        approval_above_bytes=v.approval.above_bytes,
        approval_above_records=v.approval.above_records,
        approval_of_unknown_readers=v.approval.unknown_readers,
        approval_ttl_ms=v.approval.ttl,
        lease_ttl_ms=v.lease.ttl,
        lease_renew_ms=v.lease.renew_every,
        floor_bytes_per_s=float(v.lease.floor_bytes_per_s),
        chunk_max_ms=v.chunk.max_interval,
        max_failures=v.attempts.max_failures,
        max_failures_per_hour=v.attempts.max_failures_per_hour,
        max_failed_chunks_per_hour=v.attempts.max_failed_chunks_per_hour,
        backoff_first_ms=v.attempts.backoff_first,
        backoff_max_ms=v.attempts.backoff_max,
        adopt_wait_ms=v.attempts.adopt_wait,
        launch_timeout_ms=v.attempts.launch_timeout,
        heartbeat_timeout_ms=v.attempts.heartbeat_timeout,
        paused_keep_application_ms=v.attempts.keep_paused,
        stall_after_ms=v.attempts.stall_after,
        stop_wait_ms=v.attempts.stop_wait,
        sample_period_ms=v.monitor.interval,
        eta_bytes_per_s=float(v.rates.bytes_per_s),
        remote_bytes_per_s=float(v.rates.remote_bytes_per_s),
        pricing=v.prices.pricing(),
        quotas_enabled=v.quotas.enabled,
        control=make_control_params(v.control),
    )

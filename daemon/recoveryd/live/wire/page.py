"""The lag of watched consumer groups and the present decision of each controller for the HTTP API: plain JSON values,
bounded.
"""

from collections.abc import Mapping
from typing import Any, Final

from recoveryd.kernel.numbers import finite
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.times import format_time_ms
from recoveryd.live.evidence import decision_evidence
from recoveryd.live.lag.book import Reader
from recoveryd.live.law.assessment import fresh_values
from recoveryd.live.law.types import ControllerState
from recoveryd.live.params import ControlParams, LiveParams
from recoveryd.live.pressure import Protection
from recoveryd.live.protecting import Protecting, ReaderLag
from recoveryd.live.slice import LIVE

PARTITIONS_MOST: Final = 2_000


def lag_document(state: CoreState, live: LiveParams, now_ms: int) -> dict[str, Any]:
    """Every group that the config watches; one of which nothing is known yet has the verdict `unknown`."""
    lags = state.of(LIVE).protecting.lags
    readers = sorted(live.readers)
    return {
        "at": format_time_ms(now_ms),
        "groups": [_group(r, lags.get(r), state.of(LIVE).protecting, live, now_ms) for r in readers],
    }


def control_document(state: CoreState, live: LiveParams, control: ControlParams, now_ms: int) -> dict[str, Any]:
    """Every budget domain: what is protected, what was decided last and why, and each recovery's grant."""
    protecting = state.of(LIVE).protecting
    return {
        "at": format_time_ms(now_ms),
        "default_mode": control.default_mode,
        "min_bytes_per_s": control.min_bytes_per_s,
        "max_bytes_per_s": control.max_bytes_per_s,
        "domains": [_domain(name, protecting, live, now_ms) for name in sorted(live.domains)],
    }


def _group(
    reader: Reader, lag: ReaderLag | None, protecting: Protecting, live: LiveParams, now_ms: int
) -> dict[str, Any]:
    name = live.protected.get(reader)
    domain = live.domains.get(reader.cluster)
    protection = next((p for p in domain.protections if p.name == name), None) if domain else None
    about: dict[str, Any] = {
        "cluster": reader.cluster,
        "topic": reader.topic,
        "group": reader.group,
        "slo_seconds": protection.slo_s if protection else None,
    }
    if lag is None:
        return about | {
            "verdict": "unknown", "why": "never observed", "lag_records": None, "lag_seconds": None, "coverage": 0.0,
            "sample_age_ms": None, "fill": 0.0, "lost": 0, "partitions_planned": 0, "partitions": [],
        }  # fmt: skip
    group, windows = lag.group, protecting.book.readers.get(reader, {})
    rows = []
    for part in group.partitions[:PARTITIONS_MOST]:
        window = windows.get(part.partition)
        known = part.sample_age_ms is not None
        rows.append(
            {
                "partition": part.partition,
                "verdict": part.verdict.value,
                "rule": part.rule,
                "why": part.why,
                "position": window.position if window else None,
                "end": window.ends[-1] if window and window.ends else None,
                "lag_records": part.offset_lag,
                "lag_seconds": finite(part.time_lag_s),
                "sample_age_ms": (part.sample_age_ms or 0) + max(0, now_ms - lag.evaluated_ms) if known else None,
                "fill": finite(part.fill),
                "lost": part.lost,
            }
        )
    return about | {
        "verdict": group.verdict.value,
        "why": group.why,
        "lag_records": group.offset_lag,
        "lag_seconds": finite(group.time_lag_s),
        "coverage": finite(group.coverage),
        "sample_age_ms": lag.sample_age_ms(now_ms),
        "fill": finite(group.fill),
        "lost": group.lost,
        "partitions_planned": len(lag.planned),
        "partitions": rows,
    }


def _domain(name: str, protecting: Protecting, live: LiveParams, now_ms: int) -> dict[str, Any]:
    decision, state, params = protecting.decisions.get(name), protecting.states.get(name), live.domains[name]
    fresh = {p.name for p, _ in fresh_values(state, now_ms, params)} if state else set()
    return {
        "domain": name,
        "protected": [_protected(p, state, p.name in fresh, now_ms) for p in params.protections],
        "decided": format_time_ms(protecting.stepped_ms) if decision else None,
        "decision": decision_evidence(decision) if decision else None,
        "grants": {
            recovery: {"bytes_per_s": finite(grant.bytes_per_s, 1), "pause": grant.pause, "why": grant.why}
            for recovery, grant in protecting.grants.items()
            if grant.domain == name
        },
    }


def _protected(protection: Protection, state: ControllerState | None, is_fresh: bool, now_ms: int) -> Mapping[str, Any]:
    """`is_fresh`: the controller still goes by the value; an older one is there to be looked at."""
    track = state.tracks.get(protection.name) if state else None
    is_seen = track is not None and bool(track.times_ms)
    return {
        "signal": protection.name,
        "kind": protection.kind.value,
        "slo_seconds": protection.slo_s,
        "value_seconds": finite(track.values[-1], 6) if track and is_seen else None,
        "sample_age_ms": max(0, now_ms - track.times_ms[-1]) if track and is_seen else None,
        "is_fresh": is_fresh,
        "baseline_samples": len(state.baselines.get(protection.name, ())) if state else 0,
        "is_dropped": state is not None and protection.name in state.dropped,
    }

"""From the options of live protection to the parameters of the rules: one budget domain per cluster in which anything
has an SLO.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from zlib import crc32

from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagParams
from recoveryd.live.law.types import ControllerParams
from recoveryd.live.params import ControlParams, LiveParams
from recoveryd.live.pressure import Protection, SignalKind
from recoveryd.settings.live import CANARY_READING, ControlSection, MonitoredTopic, MonitorSection

# Asking for offsets more often does not make them fresher than the brokers' answers.
_LAG_PERIOD_LEAST_MS: Final = 2_000

_LOST_AFTER_MS: Final = 300_000
_NEVER_MS: Final = 10**15  # so a rate without telemetry decays to the floor and stays there, instead of pausing


def lag_reading_name(topic: str, group: str) -> str:
    """The name of a group's time lag among the protected signals of its cluster."""
    return f"lag:{group}@{topic}"


def make_control_params(control: ControlSection) -> ControlParams:
    return ControlParams(
        default_mode=control.default_mode,
        max_bytes_per_s=float(control.max_bytes_per_s),
        min_bytes_per_s=control.floor_bytes_per_s,
        pause_allowed=control.pause_allowed,
        period_ms=control.period,
    )


def make_live_params(
    monitor: MonitorSection, control: ControlSection, clusters: Mapping[str, Mapping[str, str]]
) -> LiveParams:
    lag = LagParams(period_ms=max(_LAG_PERIOD_LEAST_MS, monitor.interval))
    protections: dict[str, list[Protection]] = {}
    for topic in monitor.topics:
        if topic.is_protected:
            protections.setdefault(topic.cluster, []).append(_of_lag(topic, lag))
    if monitor.is_canary_on:
        for cluster in monitor.canary.clusters:
            slo_s = monitor.canary.slo_ms / 1000
            protections.setdefault(cluster, []).append(Protection(CANARY_READING, SignalKind.LATENCY, slo_s))
    for reading in monitor.readings:
        protections.setdefault(reading.cluster, []).append(
            Protection(reading.name, SignalKind.LATENCY, reading.slo / 1000)
        )
    return LiveParams(
        domains={
            cluster: _domain(tuple(found), control, _place(cluster, monitor, clusters.get(cluster, {})))
            for cluster, found in protections.items()
        },
        lag=lag,
        lags={
            _reader(topic): found
            for topic in monitor.topics
            if topic.group is not None and (found := _lag_of(topic, lag)) != lag
        },
        readers=frozenset(_reader(t) for t in monitor.topics if t.group is not None),
        protected={_reader(t): lag_reading_name(t.topic, t.group or "") for t in monitor.topics if t.is_protected},
        health=frozenset((h.cluster, h.name) for h in monitor.health),
    )


def _reader(topic: MonitoredTopic) -> Reader:
    return Reader(topic.cluster, topic.topic, topic.group or "")


def _lag_of(topic: MonitoredTopic, lag: LagParams) -> LagParams:
    return replace(
        lag,
        is_read_committed=topic.read_committed,
        advance_most_per_s=topic.max_records_per_s,
        slo_ms=topic.slo,
    )


def _of_lag(topic: MonitoredTopic, lag: LagParams) -> Protection:
    slo_s = (topic.slo or 0) / 1000
    idle_s = min(lag.commit_interval_ms / 1000, slo_s / 2)
    name = lag_reading_name(topic.topic, topic.group or "")
    return Protection(name, SignalKind.LAG, slo_s, idle_s, topic.drop_when_unattributable)


def _place(cluster: str, monitor: MonitorSection, properties: Mapping[str, str]) -> float:
    """By the brokers' addresses, in any order, and what is asked of a Prometheus: with others of these, what was safe
    and usual is not known.
    """
    brokers = sorted(address.strip() for address in properties.get("bootstrap.servers", "").split(","))
    queries = sorted(f"{r.name} {r.query}" for r in monitor.prometheus if r.cluster == cluster)
    return 1.0 + crc32("\n".join([*brokers, *queries]).encode())  # a float holds it whole


def _domain(protections: tuple[Protection, ...], control: ControlSection, place: float) -> ControllerParams:
    return ControllerParams(
        protections=protections,
        target=control.target_pressure,
        displacement=control.displacement,
        period_ms=control.period,
        loop_delay_ms=control.loop_delay,
        most_bytes_per_s=float(control.max_bytes_per_s),
        lost_after_ms=_LOST_AFTER_MS if control.pause_allowed else _NEVER_MS,
        place=place,
    )

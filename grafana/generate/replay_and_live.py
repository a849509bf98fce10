"""The dashboard for "does the replay harm live traffic?": how much of each SLO is used, both kinds of traffic on the
same axes, what is granted and why, and what is left to do.
"""

from typing import Any

from grafana_foundation_sdk.builders import dashboard

from grafana.generate import frame, parts
from grafana.generate.layout import Layout
from grafana.generate.parts import BAD, GOOD, LIVE, NEUTRAL, REPLAY, WARN, Column, Look, Query
from grafana.generate.queries import (
    ALERTS_SHOWN,
    AT_WORK,
    JOB,
    OF_RECOVERIES,
    RULES_SHOWN,
    STATE_COLORS,
    TO_RECOVERY_OF_ROW,
    TO_RECOVERY_OF_SPAN,
    VERDICT_COLORS,
    alert_of,
    highest,
    quantile,
    rule_of,
    shown,
    state_changes,
    state_of,
    verdict_of,
)

_TOPIC = f'{JOB}, topic=~"$topic"'
_GROUP = f'{_TOPIC}, group=~"$group"'
_DOMAIN = f'{JOB}, domain=~"$domain"'
_RECOVERY = f'{JOB}, recovery=~"$recovery"'
_TRAFFIC = (Look("replay", REPLAY), Look("live", LIVE))
_BAND = Query(f'max(recoveryd_recoveries{{{JOB}, kind="replay", state=~"{AT_WORK}"}} > bool 0)', "a replay runs")
_BAND_LOOK = Look("a replay runs", REPLAY, band=True)
# The names that the usual rules of the JMX exporter give to what brokers measure; times are in milliseconds.
_UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
_BELOW_MINIMUM = "kafka_server_replicamanager_underminisrpartitioncount"
_REQUEST_MS = "kafka_network_requestmetrics_totaltimems"
_NO_EXPORTER = "Kafka's JMX exporter is not scraped"


def make() -> dashboard.Dashboard:
    board = frame.board(
        "recoveryd-replay-and-live",
        "recoveryd / Replay and live",
        "Replays next to live traffic: the share of each SLO that is used, rates on one axis, lag of live readers, what "
        "each recovery asks for, is granted and achieves, and which rule says so.",
    )
    for name, label, metric in (
        ("topic", "Topic", f"recoveryd_records_total{{{JOB}}}"),
        ("group", "Consumer group", f'recoveryd_lag_records{{{JOB}, traffic="live"}}'),
        ("domain", "Domain", f"recoveryd_budget_bytes_per_second{{{JOB}}}"),
        ("recovery", "Recovery", f"recoveryd_recovery_state{{{JOB}}}"),
    ):
        board.with_variable(frame.variable(name, label, f"{label}s to show.", f"label_values({metric}, {name})"))
    board.with_variable(
        frame.variable(
            "brokers", "Broker exporter", "Scrape jobs of Kafka's JMX exporter; none when it is not scraped.",
            f"label_values({_UNDER_REPLICATED}, job)",
        )
    )  # fmt: skip
    board.annotation(_lifecycle())
    board.annotation(_auto_stops_marked())
    layout = Layout(board)
    layout.row("Headroom", _headroom())
    layout.row("Now", _now())
    layout.row("What replays may take, and why", _controller())
    layout.row("Traffic", _traffic())
    layout.row("Live readers", _live_readers())
    layout.row("Recoveries", _recoveries())
    layout.row("Brokers, as Kafka's JMX exporter shows them", _brokers(), collapsed=True)
    layout.row("Internals: how fresh and how whole the signals are", _internals(), collapsed=True)
    return board


def _lifecycle() -> dashboard.AnnotationQuery:
    changed = state_changes(_RECOVERY)
    return frame.annotation("Recovery changes state", LIVE, changed, "{{recovery}}", "now {{state}}")


def _auto_stops_marked() -> dashboard.AnnotationQuery:
    stopped = f"sum by (reason) (increase(recoveryd_auto_stops_total{{{JOB}}}[30s])) > 0"
    return frame.annotation("Auto-stop", WARN, stopped, "Auto-stop", "reason: {{reason}}")


def _headroom() -> list[Any]:
    used = Query(f"max by (domain, signal) (recoveryd_pressure{{{_DOMAIN}}})", "{{signal}} of {{domain}}")
    return [
        parts.bar_gauge(
            "Share of SLO used now", "How much of its SLO each protected signal uses; at 100 % it is reached.",
            "percentunit", [used], width=8, levels=parts.thresholds(GOOD, (0.95, WARN), (1, BAD)), most=1,
        ),
        parts.timeseries(
            "Share of SLO used",
            "How much of its SLO each protected signal uses; at 100 % (dashed) it is reached. The highest one steers. "
            "Shaded: a replay runs. No line: not known, which is not zero.", "percentunit",
            [used, _BAND], width=16, line_at=1, looks=(_BAND_LOOK,), least=None,
        ),
        parts.state_timeline(
            "Rule that sets the rate",
            "The rule of the controller that decided, for each domain. Where several did within a step, the most severe "
            "one; waiting for news only where nothing else happened.",
            [Query(rule_of(_DOMAIN), "{{domain}}")], dict(RULES_SHOWN), height=4,
        ),
    ]  # fmt: skip


def _now() -> list[Any]:
    share = _share()
    return [
        parts.stat_panel(
            "Recoveries at work", "Recoveries that have an application now.", "none",
            [Query(f'sum(max by (kind, state) (recoveryd_recoveries{{{JOB}, {OF_RECOVERIES}, state=~"{AT_WORK}"}}))')],
            levels=parts.thresholds(NEUTRAL, (1, REPLAY)),
        ),
        parts.stat_panel(
            "Replay share now", "Part of all records written to the topics in play that replays write.", "percentunit",
            [Query(share)],
            levels=parts.thresholds(NEUTRAL, (0.001, REPLAY)), absent="nothing is written, or not known",
        ),
        parts.stat_panel(
            "Least headroom", "What is left of the SLO of the protected signal that is nearest to it; nothing when reached.",
            "percentunit", [Query(f"1 - max(recoveryd_pressure{{{_DOMAIN}}})")],
            levels=parts.thresholds(BAD, (0, WARN), (0.05, GOOD)),
        ),
        parts.stat_panel(
            "Budget", "What all controlled recoveries may take together now.", "Bps",
            [Query(f"sum(max by (domain) (recoveryd_budget_bytes_per_second{{{_DOMAIN}}}))")],
            absent="no replay, or not known",
        ),
        parts.stat_panel(
            "SLO broken by replays",
            "Time in the shown range in which a protected signal was over its SLO while a replay ran above its floor.",
            "s",
            [Query(f'sum(increase(recoveryd_live_slo_violation_seconds_total{{{_DOMAIN}, '
                f'attributable="yes"}}[$__range]))')],
            levels=parts.thresholds(GOOD, (1, WARN), (60, BAD)),
        ),
        parts.stat_panel(
            "Auto-stopped",
            "Recoveries that a policy ended by itself in the shown range, most of them since all was copied, or paused.",
            "none",
            [Query(f"sum(increase(recoveryd_auto_stops_total{{{JOB}}}[$__range]))")],
        ),
        parts.state_timeline(
            "Alerts",
            "Alerts of recoveryd that fire, by severity. Empty is good. What each means and what to do is in "
            "docs/operations.md, to which the alert's own runbook_url leads.",
            [Query(alert_of(), "{{alertname}}")], ALERTS_SHOWN, height=5, absent="No alert fires",
        ),
    ]  # fmt: skip


def _share() -> str:
    """By records, because bytes of live topics are known only where a replay measured their records. Nothing where
    nothing is written.
    """
    every = f"(sum(rate(recoveryd_records_total{{{_TOPIC}}}[$__rate_interval])) > 0)"
    return f'sum(rate(recoveryd_records_total{{{_TOPIC}, traffic="replay"}}[$__rate_interval])) / {every}'


def _traffic() -> list[Any]:
    def rate(metric: str, by: str) -> str:
        return f"sum by ({by}) (rate({metric}{{{_TOPIC}}}[$__rate_interval]))"

    return [
        parts.timeseries(
            "Records written",
            "Records per second written to the topics in play, by replays and by everybody else, on one axis.", "cps",
            [Query(rate("recoveryd_records_total", "traffic"), "{{traffic}}"), _BAND], looks=(*_TRAFFIC, _BAND_LOOK),
        ),
        parts.timeseries(
            "Bytes written",
            "Bytes per second. Live bytes are records times the mean size that a replay of the topic measured.", "Bps",
            [Query(rate("recoveryd_bytes_total", "traffic"), "{{traffic}}"), _BAND], looks=(*_TRAFFIC, _BAND_LOOK),
        ),
        parts.timeseries(
            "Replay share", "Part of all records written to the topics in play that replays write.", "percentunit",
            [Query(_share(), "replay share")], looks=(Look("replay share", REPLAY),), most=1,
        ),
        parts.timeseries(
            "Records written by topic", "The same by topic.", "cps",
            [Query(rate("recoveryd_records_total", "traffic, topic"), "{{traffic}} {{topic}}")],
        ),
    ]  # fmt: skip


def _live_readers() -> list[Any]:
    live = f'{_GROUP}, traffic="live"'
    slo = Query(f'max by (signal) (recoveryd_live_slo_seconds{{{_DOMAIN}, signal=~"lag:.*"}})', "SLO {{signal}}")
    return [
        parts.timeseries(
            "Live lag",
            "Age of the oldest record that a live consumer group has still to read. Dashed: its SLO. Shaded: a "
            "replay runs. No line: unknown, which is not zero.", "s",
            [Query(f"max by (topic, group) {highest('recoveryd_lag_seconds', live)}", "{{group}} on {{topic}}"), slo, _BAND],
            looks=(Look("SLO .*", BAD, dashed=True), _BAND_LOOK),
        ),
        parts.timeseries(
            "Live lag in records", "Records between a live group's committed offsets and the end of the topic.", "none",
            [Query(f"max by (topic, group) {highest('recoveryd_lag_records', live)}", "{{group}} on {{topic}}"), _BAND],
            looks=(_BAND_LOOK,),
        ),
        parts.timeseries(
            "Produce latency of the canary",
            "Time until a tiny record with acks=all is acknowledged, measured ten times a second; one that waits counts "
            "each time with its age. Dashed: the SLO of latencies. The controller compares with it an upper bound of the "
            "90th percentile of each 3 s, not p99.", "s",
            [
                Query(quantile(0.99, "recoveryd_canary_produce_seconds", JOB, "le, cluster"), "p99 {{cluster}}"),
                Query(quantile(0.5, "recoveryd_canary_produce_seconds", JOB, "le, cluster"), "p50 {{cluster}}"),
                Query(f'max by (signal) (recoveryd_live_slo_seconds{{{_DOMAIN}, signal!~"lag:.*"}})', "SLO {{signal}}"),
                _BAND,
            ],
            looks=(Look("SLO .*", BAD, dashed=True), _BAND_LOOK),
        ),
        parts.timeseries(
            "Live SLO broken",
            "Seconds per second in which a protected signal is over its SLO; `by replay` = a replay ran above its "
            "floor at that time.", "percentunit",
            [
                Query(f'sum by (signal) (rate(recoveryd_live_slo_violation_seconds_total{{{_DOMAIN}, '
                    f'attributable="yes"}}[$__rate_interval]))', "by replay: {{signal}}"),
                Query(f'sum by (signal) (rate(recoveryd_live_slo_violation_seconds_total{{{_DOMAIN}, '
                    f'attributable="no"}}[$__rate_interval]))', "by others: {{signal}}"),
            ],
            looks=(Look("by replay.*", BAD), Look("by others.*", NEUTRAL)),
        ),
        parts.state_timeline(
            "Lag verdicts", "What the lag rules say about each live consumer group.",
            [Query(verdict_of(_GROUP), "{{group}} on {{topic}}")],
            shown(VERDICT_COLORS), height=6,
        ),
    ]  # fmt: skip


def _controller() -> list[Any]:
    def of_recoveries(metric: str) -> str:
        return f"sum(max by (recovery) ({metric}{{{_RECOVERY}}}))"

    return [
        parts.timeseries(
            "Requested, granted and achieved rate",
            "Sums over the recoveries shown. Requested: what their commands ask for. Granted: the lease of now. "
            "Achieved: what lanes report.", "Bps",
            [
                Query(of_recoveries("recoveryd_rate_requested_bytes_per_second"), "requested"),
                Query(of_recoveries("recoveryd_rate_limit_bytes_per_second"), "granted"),
                Query(of_recoveries("recoveryd_rate_achieved_bytes_per_second"), "achieved"),
                Query(f"sum(max by (domain) (recoveryd_budget_bytes_per_second{{{_DOMAIN}}}))", "budget"),
            ],
            looks=(Look("requested", NEUTRAL, dashed=True), Look("granted", LIVE), Look("achieved", REPLAY),
                Look("budget", "purple", dashed=True)),
        ),
        parts.timeseries(
            "Auto-stops",
            "Recoveries that a policy ended by itself, by reason: zero_lag where all was copied. live_slo pauses.", "none",
            [Query(f"sum by (reason) (increase(recoveryd_auto_stops_total{{{JOB}}}[$__rate_interval])) > 0",
                "{{reason}}")], bars=True,
        ),
    ]  # fmt: skip


def _brokers() -> list[Any]:
    """The daemon does not measure these; they say whether the cluster itself is well."""

    def of(metric: str, more: str = "") -> str:
        return f'{metric}{{job=~"$brokers"{more}}}'

    def p99_s(request: str) -> str:
        taken = of(_REQUEST_MS, f', request="{request}", quantile="0.99"')
        return f"max by (instance) ({taken}) / 1000"

    return [
        parts.timeseries(
            "Under-replicated partitions",
            "Partitions of which a replica is behind, and those below min.insync.replicas, which take no records.", "none",
            [
                Query(f"sum by (instance) ({of(_UNDER_REPLICATED)})", "{{instance}}"),
                Query(f"sum by (instance) ({of(_BELOW_MINIMUM)})", "{{instance}} below the minimum"),
            ],
            absent=_NO_EXPORTER,
        ),
        parts.timeseries(
            "Request latency of brokers", "The whole time that a broker takes for a request, 99th percentile.", "s",
            [
                Query(p99_s("Produce"), "produce: {{instance}}"), Query(p99_s("FetchConsumer"), "fetch: {{instance}}"),
            ],
            absent=_NO_EXPORTER,
        ),
    ]  # fmt: skip


def _internals() -> list[Any]:
    return [
        parts.timeseries(
            "Age of signals",
            "Seconds since the newest sample of each protected signal, the most of each step. Beyond its limit (dashed), "
            "the loop delay and its usual gap where it comes seldom, rates decay to the floor; beyond five minutes "
            "replays pause.", "s",
            [
                Query(f"max by (domain, signal) {highest('recoveryd_signal_age_seconds', _DOMAIN)}",
                    "{{signal}} of {{domain}}"),
                Query(f"max by (domain, signal) (recoveryd_signal_stale_after_seconds{{{_DOMAIN}}})",
                    "limit of {{signal}} of {{domain}}"),
            ],
            looks=(Look("limit of.*", NEUTRAL, dashed=True),),
        ),
        parts.timeseries(
            "Coverage of live lag", "Part of the partitions whose lag is known and fresh, per live group.", "percentunit",
            [Query(f"min by (topic, group) (recoveryd_coverage_ratio{{{_GROUP}}})", "{{group}} on {{topic}}")], most=1,
        ),
    ]  # fmt: skip


def _recoveries() -> list[Any]:
    def value(metric: str, more: str = "") -> str:
        return f"max by (recovery) ({metric}{{{_RECOVERY}{more}}})"

    return [
        parts.state_timeline("States", "State of each recovery over time.",
            [Query(state_of(_RECOVERY), "{{recovery}}")], shown(STATE_COLORS), leads_to=TO_RECOVERY_OF_SPAN),
        parts.table_panel(
            "Recoveries",
            "One row per recovery that is at work or ended within the hour; its name leads to it. Left at this rate is "
            "arithmetic; the three columns after it are the forecast and its bounds.", "recovery",
            [
                Column("State", f"max by (recovery, state) (recoveryd_recovery_state{{{_RECOVERY}}} == 1)",
                    label="state"),
                Column("Progress", value("recoveryd_recovery_progress_ratio"), "percentunit"),
                Column("Requested", value("recoveryd_rate_requested_bytes_per_second"), "Bps"),
                Column("Granted", value("recoveryd_rate_limit_bytes_per_second"), "Bps"),
                Column("Achieved", value("recoveryd_rate_achieved_bytes_per_second"), "Bps"),
                Column("Records left", _records_left(), "short"),
                Column("Left at this rate", value("recoveryd_recovery_eta_seconds"), "s"),
                Column("Forecast", value("recoveryd_recovery_eta_bound_seconds", ', bound="mid"'), "s"),
                Column("Forecast, best", value("recoveryd_recovery_eta_bound_seconds", ', bound="lo"'), "s"),
                Column("Forecast, worst", value("recoveryd_recovery_eta_bound_seconds", ', bound="hi"'), "s"),
                Column("Times live", value("recoveryd_speedup_ratio"), "none"),
                Column("Retention slack", value("recoveryd_retention_slack_seconds"), "s"),
            ],
            leads_to=TO_RECOVERY_OF_ROW, absent="No recovery",
        ),
    ]  # fmt: skip


def _records_left() -> str:
    """The lag metric names a replay's recovery in the label `group`."""
    lag = f'recoveryd_lag_records{{{JOB}, traffic="replay", group=~"$recovery"}}'
    return f'max by (recovery) (label_replace({lag}, "recovery", "$1", "group", "(.*)"))'

"""The dashboard for "is the daemon itself well?": who leads, how quickly it decides and commits, what it receives, and
its Spark applications.
"""

from typing import Any

from grafana_foundation_sdk.builders import dashboard

from grafana.generate import frame, parts
from grafana.generate.layout import Layout
from grafana.generate.parts import BAD, GOOD, NEUTRAL, REPLAY, WARN, Look, Query
from grafana.generate.queries import (
    JOB,
    OF_RECOVERIES,
    STATE_LOOKS,
    TO_RECOVERY_OF_SPAN,
    WORK_LOOKS,
    highest,
    quantile,
)

_DOMAIN = f'{JOB}, domain=~"$domain"'
_GROUP = f'{JOB}, group=~"$group"'


def make() -> dashboard.Dashboard:
    board = frame.board(
        "recoveryd-daemon-and-jobs",
        "recoveryd / Daemon and jobs",
        "Leader and standbys, loop, decisions, journal, commands, the signals that live protection relies on, and "
        "the Spark applications.",
    )
    board.with_variable(
        frame.variable(
            "domain", "Domain", "Domains to show.", f"label_values(recoveryd_loop_delay_seconds{{{JOB}}}, domain)"
        )
    )
    board.with_variable(
        frame.variable(
            "group",
            "Consumer group",
            "Live consumer groups to show.",
            f"label_values(recoveryd_coverage_ratio{{{JOB}}}, group)",
        )
    )
    led = f"changes(recoveryd_leader{{{JOB}}}[30s]) > 0"
    board.annotation(frame.annotation("Leader changes", WARN, led, "{{instance}}", "leads or stopped to lead"))
    layout = Layout(board)
    layout.row("Now", _now())
    layout.row("Daemons, commands and recoveries", _commands())
    layout.row("Signals", _signals())
    layout.row("Spark applications", _jobs())
    layout.row("Internals: loop, decisions and journal", _internals(), collapsed=True)
    return board


def _now() -> list[Any]:
    return [
        parts.stat_panel("Leaders", "Daemons that lead; exactly one per scope.", "none",
            [Query(f"sum(recoveryd_leader{{{JOB}}}) or vector(0)")],
            levels=parts.thresholds(BAD, (1, GOOD), (2, BAD))),
        parts.stat_panel("Daemons up", "Daemons that answer Prometheus, standbys included.", "none",
            [Query(f"sum(up{{{JOB}}}) or vector(0)")], levels=parts.thresholds(BAD, (1, GOOD))),
        parts.stat_panel("Loop age now",
            "Seconds since the event loop last turned, worst daemon; over 15 s /livez fails.", "s",
            [Query(f"max(recoveryd_loop_age_seconds{{{JOB}}})")], levels=parts.thresholds(GOOD, (5, WARN), (15, BAD))),
        parts.stat_panel("Journal fails since", "Seconds since commits of the journal fail; 0 while they go through.",
            "s", [Query(f"max(recoveryd_journal_failing_seconds{{{JOB}}})")],
            levels=parts.thresholds(GOOD, (1, WARN), (30, BAD))),
        parts.stat_panel("Decisions", "Pure decisions per second.", "ops",
            [Query(f"sum(rate(recoveryd_decision_seconds_count{{{JOB}}}[$__rate_interval]))")]),
        parts.stat_panel("Journal commits", "Journal transactions per second.", "ops",
            [Query(f"sum(rate(recoveryd_journal_commit_seconds_count{{{JOB}}}[$__rate_interval]))")]),
    ]  # fmt: skip


def _internals() -> list[Any]:
    def buckets(histogram: str) -> Query:
        return Query(f"sum by (le) (increase({histogram}_bucket{{{JOB}}}[$__rate_interval]))", "{{le}}")

    def quantiles(histogram: str) -> list[Query]:
        return [Query(quantile(q, histogram, JOB), f"p{q * 100:g}") for q in (0.5, 0.9, 0.99)]

    return [
        parts.timeseries("Decision time", "Time of one pure decision.", "s", quantiles("recoveryd_decision_seconds"),
            width=12),
        parts.heatmap_panel("Decision time, all", "Decisions by how long they took.", "s",
            buckets("recoveryd_decision_seconds")),
        parts.timeseries("Journal commit time", "Time of one journal transaction, all in-sync replicas included.", "s",
            quantiles("recoveryd_journal_commit_seconds"), width=12),
        parts.heatmap_panel("Journal commit time, all", "Journal transactions by how long they took.", "s",
            buckets("recoveryd_journal_commit_seconds")),
        parts.timeseries("Loop age", "Seconds since the event loop last turned.", "s",
            [Query(highest("recoveryd_loop_age_seconds", JOB), "{{instance}}")]),
        parts.timeseries("Control records unread", "Offsets of the control topic behind what the leader has taken, seen every ten seconds.", "none",
            [Query(f"max by (instance) (recoveryd_control_unread_offsets{{{JOB}}})", "{{instance}}")]),
        parts.timeseries("Secrets that were refused", "Secrets whose files hold what cannot be used; those of before stay.", "none",
            [Query(f"max by (secret) (recoveryd_secret_refused{{{JOB}}}) > 0", "{{secret}}")]),
        parts.timeseries("Webhooks told of transitions", "By webhook and outcome, and how many wait.", "none", [
            Query(f"sum by (webhook, outcome) (increase(recoveryd_webhook_transitions_total{{{JOB}}}[$__rate_interval]))",
                "{{webhook}} {{outcome}}"),
            Query(f"max by (webhook) (recoveryd_webhook_transitions_waiting{{{JOB}}}) > 0", "{{webhook}} waits")]),
        parts.timeseries("Scrape time", "How long the daemon took to answer Prometheus, and how many samples it sent.",
            "s", [
            Query(f"scrape_duration_seconds{{{JOB}}}", "{{instance}}"),
            Query(f"scrape_samples_scraped{{{JOB}}}", "samples of {{instance}}")],
            looks=(Look("samples of .*", NEUTRAL, dashed=True, unit="short"),)),
    ]  # fmt: skip


def _commands() -> list[Any]:
    return [
        parts.state_timeline("Who leads", "Each daemon: leader or standby.",
            [Query(f"recoveryd_leader{{{JOB}}}", "{{instance}}")], {"0": ("standby", NEUTRAL), "1": ("leader", GOOD)},
            height=4),
        parts.timeseries("Commands by answer", "Control records by verb and answer.", "none",
            [Query(f"sum by (verb, answer) (increase(recoveryd_commands_total{{{JOB}}}[$__rate_interval])) > 0",
                "{{verb}} {{answer}}")], bars=True),
        parts.timeseries("Recoveries by state", "All recoveries the daemon knows, ended ones included.", "none",
            [Query(f"sum by (state) (max by (kind, state) (recoveryd_recoveries{{{JOB}, {OF_RECOVERIES}}})) > 0",
                "{{state}}")], stacked=True, looks=STATE_LOOKS),
        parts.timeseries("Verifications", "Verifications that ended, by result.", "none",
            [Query(f"sum by (result) (increase(recoveryd_verifications_total{{{JOB}}}[$__rate_interval]))",
                "{{result}}")], bars=True, looks=(Look("match", GOOD), Look("mismatch", BAD),
                Look("skipped", NEUTRAL))),
        parts.timeseries("Schedules", "Due times of schedules by what became of them, and their runs that ended.", "none",
            [Query(f"sum by (result) (increase(recoveryd_schedule_due_total{{{JOB}}}[$__rate_interval])) > 0",
                "{{result}}"),
             Query(f"sum by (outcome) (increase(recoveryd_schedule_runs_total{{{JOB}}}[$__rate_interval])) > 0",
                "run {{outcome}}"),
             Query(f"max(recoveryd_schedule_overrun_expected{{{JOB}}}) > 0", "overrun expected")], bars=True, absent="No schedule was due"),
        parts.timeseries("Records lost", "Offsets of a source that vanished before they were copied.", "none",
            [Query(f"sum by (topic) (increase(recoveryd_records_lost_total{{{JOB}}}[$__rate_interval]))", "{{topic}}")],
            bars=True),
    ]  # fmt: skip


def _signals() -> list[Any]:
    canary = "recoveryd_canary_produce_seconds"
    return [
        parts.timeseries("Age of signals",
            "Seconds since the newest sample of each protected signal, the most of each step. Its limit (dashed) is how old "
            "it may be: the loop delay, and its usual gap beside that where it comes seldom.", "s", [
            Query(f"max by (domain, signal) {highest('recoveryd_signal_age_seconds', _DOMAIN)}", "{{signal}} of {{domain}}"),
            Query(f"max by (domain, signal) (recoveryd_signal_stale_after_seconds{{{_DOMAIN}}})",
                "limit of {{signal}} of {{domain}}"),
            Query(f"max by (domain) (recoveryd_loop_delay_seconds{{{_DOMAIN}}})", "loop delay of {{domain}}")],
            looks=(Look("limit of.*", NEUTRAL, dashed=True), Look("loop delay.*", NEUTRAL))),
        parts.timeseries("Samples not used", "Samples of live traffic that were refused, per second, by reason.", "ops",
            [Query(f"sum by (reason) (rate(recoveryd_signals_rejected_total{{{JOB}}}[$__rate_interval]))",
                "{{reason}}")], stacked=True),
        parts.timeseries("Coverage of lag", "Part of the partitions whose lag is known and fresh, per live group.",
            "percentunit", [Query(f"min by (topic, group) (recoveryd_coverage_ratio{{{_GROUP}}})",
                "{{group}} on {{topic}}")], most=1),
        parts.timeseries("Canary latency", "Time until a tiny record with acks=all is acknowledged; of one that waits, its age.", "s",
            [Query(quantile(q, canary, JOB, "le, cluster"), f"p{q * 100:g} {{{{cluster}}}}") for q in (0.5, 0.9,
                0.99)]),
        parts.heatmap_panel("Canary latency, all", "Measurements of the canary by how long they took.", "s",
            Query(f"sum by (le) (increase({canary}_bucket{{{JOB}}}[$__rate_interval]))", "{{le}}"), width=24),
    ]  # fmt: skip


def _jobs() -> list[Any]:
    return [
        parts.timeseries("Lanes by state",
            "Lanes of all applications by the state they report; silent = no heartbeat lately.", "none",
            [Query(f"sum by (state) (max by (recovery, state) (recoveryd_lanes{{{JOB}}})) > 0", "{{state}}")],
            stacked=True, looks=WORK_LOOKS),
        parts.timeseries("Partitions by state", "Planned partitions of recoveries at work.", "none",
            [Query(f"sum by (state) (max by (recovery, state) (recoveryd_partitions{{{JOB}}})) > 0", "{{state}}")],
            stacked=True, looks=WORK_LOOKS),
        parts.timeseries("Attempts", "Number of the present application of each recovery; it grows when one died.",
            "none", [Query(f"max by (recovery) (recoveryd_attempt_number{{{JOB}}})", "{{recovery}}")]).data_links(
                [TO_RECOVERY_OF_SPAN]),
        parts.timeseries("Failures in a row",
            "Applications in a row that ended without progress; too many fail the recovery.", "none",
            [Query(f"max by (recovery) (recoveryd_attempt_failures{{{JOB}}})", "{{recovery}}")]).data_links(
                [TO_RECOVERY_OF_SPAN]),
        parts.timeseries("Copied by all lanes", "Sum of what the lanes of all recoveries report.", "Bps",
            [Query(f"sum(max by (recovery) (recoveryd_rate_achieved_bytes_per_second{{{JOB}}}))", "achieved")],
            width=24, looks=(Look("achieved", REPLAY),)),
    ]  # fmt: skip

"""The dashboard of one recovery: its state, how far each partition is, whether the equation of completeness holds, and
what ended it.
"""

from typing import Any

from grafana_foundation_sdk.builders import dashboard

from grafana.generate import frame, parts
from grafana.generate.layout import Layout
from grafana.generate.parts import BAD, GOOD, LIVE, NEUTRAL, REPLAY, WARN, Column, Look, Query
from grafana.generate.queries import JOB, STATE_COLORS, WORK_LOOKS, highest, shown, state_changes, state_of

_ONE = f'{JOB}, recovery="$recovery"'
_LAG = f'{JOB}, traffic="replay", group="$recovery"'
_NO_ENDS = "Not known, or it does not run"  # of one that follows and cannot look at its source
_NOT_VERIFIED = "not verified, or not known"
_OUTCOMES = (
    Look("copied", LIVE), Look("filtered", "light-blue"), Look("skipped", "yellow"), Look("lost", BAD),
    Look("unexplained", "dark-red"),
    Look("left", NEUTRAL),
)  # fmt: skip


def make() -> dashboard.Dashboard:
    board = frame.board(
        "recoveryd-recovery",
        "recoveryd / Recovery",
        "One recovery: its states, progress and forecast, every partition's position against its stop, completeness, "
        "verification, and the evidence of its end.",
    )
    board.with_variable(
        frame.variable(
            "recovery", "Recovery", "The recovery to show; those that ended are here for an hour.",
            f"label_values(recoveryd_recovery_state{{{JOB}}}, recovery)", several=False,
        )
    )  # fmt: skip
    changed = state_changes(_ONE)
    board.annotation(frame.annotation("State changes", LIVE, changed, "{{recovery}}", "now {{state}}"))
    layout = Layout(board)
    layout.row("Now", _now())
    layout.row("Progress", _progress())
    layout.row("Partitions", _partitions())
    layout.row("Completeness and verification", _completeness())
    layout.row("End", _end())
    return board


def _value(metric: str, more: str = "") -> str:
    return f"max by (recovery) ({metric}{{{_ONE}{more}}})"


def _now() -> list[Any]:
    return [
        parts.stat_panel("State", "Where the recovery is in its life.", "none", [Query(state_of(_ONE))],
            shown=shown(STATE_COLORS)),
        parts.stat_panel(
            "Done", "Part of the planned offsets that is durable in the target.", "percentunit",
            [Query(_value("recoveryd_recovery_progress_ratio"))],
            levels=parts.thresholds(REPLAY, (1, GOOD)),
        ),
        parts.stat_panel("Left at this rate", "Arithmetic, no forecast; nothing while the rate is not known.", "s",
            [Query(_value("recoveryd_recovery_eta_seconds"))]),
        parts.stat_panel("Records left",
            "Offsets between durable positions and the stop, or the end of the topic while it follows.", "short",
            [Query(f"max(recoveryd_lag_records{{{_LAG}}})")]),
        parts.stat_panel("Attempt", "Number of the present Spark application; 1 when none died.", "none",
            [Query(_value("recoveryd_attempt_number"))], levels=parts.thresholds(NEUTRAL, (2, WARN))),
        parts.stat_panel(
            "Verified", "What reading the target back found.", "none",
            [Query(f"max by (result) (recoveryd_verification_records{{{_ONE}}})", "{{result}}")], name_only=True,
            absent=_NOT_VERIFIED,
        ),
    ]  # fmt: skip


def _progress() -> list[Any]:
    return [
        parts.state_timeline("State over time", "Each state the recovery was in.",
            [Query(state_of(_ONE), "{{recovery}}")], shown(STATE_COLORS), height=4),
        parts.timeseries(
            "Progress",
            "Part of the planned offsets that is durable in the target, and part of both sides that the verification "
            "has read.", "percentunit",
            [Query(_value("recoveryd_recovery_progress_ratio"), "done"),
                Query(_value("recoveryd_verification_progress_ratio"), "verified")], most=1,
            looks=(Look("done", REPLAY), Look("verified", GOOD)),
        ),
        parts.timeseries(
            "Forecast of the time left",
            "The forecast with its bounds, and next to it what the present rate alone would say. A bound that is not "
            "drawn is `never`.", "s",
            [
                Query(_value("recoveryd_recovery_eta_seconds"), "at this rate"),
                *(
                    Query(_value("recoveryd_recovery_eta_bound_seconds", f', bound="{bound}"'), name)
                    for bound, name in (("lo", "forecast, best"), ("mid", "forecast"), ("hi", "forecast, worst"))
                ),
            ],
            looks=(Look("forecast, best|forecast, worst", NEUTRAL, dashed=True), Look("^forecast$", LIVE),
                Look("at this rate", REPLAY)),
        ),
        parts.timeseries(
            "Rates", "Requested: what the command asks for. Granted: the lease of now. Achieved: what lanes report.",
            "Bps",
            [
                Query(_value("recoveryd_rate_requested_bytes_per_second"), "requested"),
                Query(_value("recoveryd_rate_limit_bytes_per_second"), "granted"),
                Query(_value("recoveryd_rate_achieved_bytes_per_second"), "achieved"),
            ],
            looks=(Look("requested", NEUTRAL, dashed=True), Look("granted", LIVE), Look("achieved", REPLAY)),
        ),
        parts.timeseries(
            "Behind",
            "Age of the oldest record that is still to be copied, by worst partition; known only inside the sampled "
            "history.", "s",
            [Query(f"max({highest('recoveryd_lag_seconds', _LAG)})", "age"),
                Query(_value("recoveryd_retention_slack_seconds"), "retention slack")],
            looks=(Look("age", REPLAY), Look("retention slack", WARN, dashed=True)), least=None,
        ),
        parts.timeseries(
            "Times faster than live",
            "Event time copied per second, on a scale of powers of ten. At 1 (dashed) a following recovery never arrives.",
            "none", [Query(f"{_value('recoveryd_speedup_ratio')} > 0", "times live")], line_at=1, log=True, least=None,
        ),
        parts.timeseries(
            "Lanes", "Lanes of the present application by the state they report; silent = no heartbeat lately.", "none",
            [Query(f"max by (state) (recoveryd_lanes{{{_ONE}}}) > 0", "{{state}}")], stacked=True, looks=WORK_LOOKS,
        ),
    ]  # fmt: skip


def _partitions() -> list[Any]:
    def each(metric: str) -> str:
        return f"max by (partition) ({metric}{{{_ONE}}})"

    position, stop = each("recoveryd_partition_position_offset"), each("recoveryd_partition_stop_offset")
    return [
        parts.table_panel(
            "Position against stop",
            "Durable position of each partition and the offset it stops before. While the recovery follows, the stop "
            "is the newest known end. The first 1,000 partitions of all recoveries at work.", "partition",
            [Column("Position", position), Column("Stop", stop), Column("Left", f"{stop} - {position}")], width=8,
            absent=_NO_ENDS,
        ),
        parts.bar_gauge("Offsets left", "What each partition has still to do.", "short",
            [Query(f"{stop} - {position}", "{{partition}}")], width=8, absent=_NO_ENDS),
        parts.timeseries(
            "Partitions by state", "Planned partitions that are waiting, copying, paused, blocked or done.", "none",
            [Query(f"max by (state) (recoveryd_partitions{{{_ONE}}}) > 0", "{{state}}")], width=8, stacked=True,
            looks=WORK_LOOKS,
        ),
        parts.timeseries("Positions over time", "Durable position of each partition (lines) and its stop (dashed).",
            "none", [
            Query(position, "partition {{partition}}"), Query(stop, "stop of {{partition}}")],
            width=24, looks=(Look("stop of .*", NEUTRAL, dashed=True),), least=None),
    ]  # fmt: skip


def _completeness() -> list[Any]:
    outcome = f"max by (outcome) (recoveryd_recovery_offsets{{{_ONE}}})"
    return [
        parts.timeseries(
            "Where the offsets went",
            "Every offset of the plan is copied, filtered, skipped (no record there), lost, or left to do. "
            "`unexplained` must be 0 at the end.", "short",
            [Query(f"{outcome} != 0", "{{outcome}}")], stacked=True, looks=_OUTCOMES,
        ),
        parts.bar_gauge(
            "Completeness", "The same, now: offsets = copied + filtered + skipped + lost + unexplained + left.",
            "short",
            [Query(outcome, "{{outcome}}")], width=6,
        ),
        parts.bar_gauge(
            "Verification",
            "Records of the source range, records read in the target, and those that belong to no copy (extra).", "short",
            [Query(f"max by (side, result) (recoveryd_verification_records{{{_ONE}}})", "{{side}} ({{result}})")],
            width=6, absent=_NOT_VERIFIED,
        ),
    ]  # fmt: skip


def _end() -> list[Any]:
    return [
        parts.table_panel(
            "Why it ended", "Reason, mode and time of the stop, as soon as it is decided.", "recovery",
            [
                Column("Reason", f"max by (recovery, reason) (recoveryd_recovery_stop_timestamp_seconds{{{_ONE}}})",
                    label="reason"),
                Column("Mode", f"max by (recovery, mode) (recoveryd_recovery_stop_timestamp_seconds{{{_ONE}}})",
                    label="mode"),
                Column("At", f"{_value('recoveryd_recovery_stop_timestamp_seconds')} * 1000", "dateTimeAsIso"),
            ], width=8, height=6,
        ),
        parts.table_panel(
            "Evidence", "The numbers that the rule saw.", "name",
            [Column("Value", f"max by (name) (recoveryd_recovery_stop_evidence{{{_ONE}}})")], width=8, height=6,
        ),
        parts.timeseries(
            "On the way to a stop",
            "Evaluations in a row at which a following recovery was caught up; three, over half a minute, stop it.",
            "none",
            [Query(_value("recoveryd_stop_candidate"), "caught up")], width=8, height=6,
        ),
    ]  # fmt: skip

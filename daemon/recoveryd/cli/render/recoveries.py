"""Tables of recoveries: what `list`, `get`, `describe`, `watch` and a finished `replay --wait` print for people.

Takes status records and events as the contract spells them and gives Rich renderables; prints nothing, asks nobody.
Fields that are absent (an older or newer daemon) show as `-`.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.forecast import forecast_facts, interval
from recoveryd.cli.render.holds import hold_parts
from recoveryd.cli.render.proof import result_parts
from recoveryd.cli.render.scheduled import schedule_parts
from recoveryd.cli.render.tables import asker, columns, facts
from recoveryd.cli.render.watched import until_text, watch_parts
from recoveryd.cli.render.workflows import workflow_parts, workflow_plan_parts
from recoveryd.cli.status import Document, has_ended, told_why

_STATE_STYLES = {
    "completed": "green",
    "running": "cyan",
    "verifying": "cyan",
    "paused": "yellow",
    "pausing": "yellow",
    "waiting": "yellow",
    "closing": "yellow",
    "awaiting_approval": "yellow",
    "stopping": "yellow",
    "failed": "bold red",
    "rejected": "red",
    "expired": "red",
}
_COPIES = {"running", "pausing", "paused", "stopping", "verifying", "completed", "stopped", "failed"}
_SEVERITY_STYLES = {"error": "red", "warn": "yellow", "info": "dim"}
_WIDE = ("KIND", "ABOUT", ">ATTEMPT", "BY", "RULE")
_EVENT_PREFIX = "io.recoveryd.event."


def recoveries_table(documents: Sequence[Document], *, is_wide: bool = False) -> Table:
    """One row per recovery, in the order given; a long list keeps to one line each where the terminal is narrow. Wide:
    also what it copies, who asked, under which rule it runs.
    """
    now = datetime.now(UTC)
    more = _WIDE if is_wide else ()
    table = columns("RECOVERY", "STATE", ">DONE", ">RECORDS", ">RATE", ">LAG", ">ETA", ">AGE", *more, "WHY")
    if len(documents) > 1:
        table.columns[-1].no_wrap, table.columns[-1].overflow = True, "ellipsis"
    for document in documents:
        progress = (document.get("watch") or document).get("progress") or {}
        moving = {} if has_ended(document) else progress  # of an ended one only what stays true
        table.add_row(
            document["recovery"],
            state_text(document["state"]),
            figures.percent(figures.progress_ratio(document)),
            figures.count(progress.get("records") or progress.get("verified_records")),
            figures.rate(moving.get("bytes_per_s") or None),
            figures.count(moving.get("lag_records")),
            figures.duration(moving.get("eta_seconds")),
            figures.age(document.get("created"), now),
            *(_wide_cells(document) if is_wide else ()),
            Text(told_why(document)),
        )
    return table


def _wide_cells(document: Document) -> tuple[str, ...]:
    plan, limits = document.get("plan") or {}, document.get("limits") or {}
    topics = [(plan.get(side) or {}).get("topic") for side in ("source", "target")]
    told = (
        document.get("workflow") or document.get("kind"),
        " -> ".join(topic for topic in topics if topic) or _about(document),
        document.get("attempt"),
        asker(document),
        limits.get("rule") or _bound(document),
    )
    return tuple(figures.NONE if value in {None, ""} else str(value) for value in told)


def _about(document: Document) -> str:
    """The group, topics or unit of what copies nothing."""
    watch, hold = document.get("watch") or {}, document.get("hold") or {}
    group, topics = watch.get("group"), ", ".join((watch or hold).get("topics") or ())
    sent = ((document.get("schedule") or {}).get("command") or {}).get("verb")
    return " on ".join(filter(None, (group, topics))) or document.get("unit") or document.get("group") or sent or ""


def _bound(document: Document) -> str:
    """What ends it, or when it does something next, where no limit rules it."""
    watch, hold, schedule = (document.get(kind) or {} for kind in ("watch", "hold", "schedule"))
    if watch:
        return f"until {until_text(watch.get('until'))}"
    if hold.get("expires"):
        return f"expires {figures.clock_time(hold['expires'])}"
    return f"next run {figures.clock_time(schedule['next_run'])}" if schedule.get("next_run") else ""


def describe(document: Document, events: Sequence[Document]) -> list[RenderableType]:
    """Everything about one recovery, in the order in which it happened."""
    parts: list[RenderableType] = [_heading(document)]
    if document.get("workflow"):
        parts += workflow_parts(document)
    elif document.get("plan"):
        parts += ["", *plan_parts(document)]
    if (document.get("progress") or {}).get("partitions"):
        parts += ["", Text("Progress", style="bold"), progress_table(document)]
    if (document.get("progress") or {}).get("offsets_to_verify"):
        parts += [
            "",
            Text("Verification as it runs" if not has_ended(document) else "Verified", style="bold"),
            _verified(document),
        ]
    if not has_ended(document) and (document.get("progress") or {}).get("forecast"):
        parts += ["", Text("Forecast as it runs", style="bold"), forecast_facts(document["progress"]["forecast"])]
    if document.get("watch"):
        parts += watch_parts(document)
    if document.get("schedule"):
        parts += schedule_parts(document)
    if document.get("hold"):
        parts += hold_parts(document)
    parts += result_parts(document)
    if events:
        parts += ["", Text("Events (UTC)", style="bold"), timeline_table(events)]
    return parts


def plan_parts(document: Document) -> list[RenderableType]:
    """Where from, where to, how much, how long, what was noticed, then the pinned offsets; of a
    workflow, its changes.
    """
    plan: Document = document["plan"]
    if document.get("workflow"):
        return workflow_plan_parts(plan)
    source, target = plan["source"], plan["target"]
    summary = facts(
        ("plan", plan.get("hash")),
        ("source", f"{_topic(source)}, {len(source['partitions'])} partitions"),
        ("target", f"{_topic(target)}, {target.get('partitions', figures.NONE)} partitions"),
        ("at most", f"{figures.count(plan.get('records_at_most'))} records, {figures.size(plan.get('bytes_at_most'))}"),
        ("takes", _eta_text(plan.get("eta_seconds"))),
        ("budget", _budget_text(plan.get("budget"))),
        ("counted as", (plan.get("traffic") or {}).get("label")),
    )
    table = columns(">PARTITION", ">START", ">STOP", ">OFFSETS", "")
    for row in source["partitions"]:
        stop = row["stop"]
        offsets = None if stop is None else stop - row["start"]
        table.add_row(
            str(row["partition"]),
            figures.count(row["start"]),
            "follows" if stop is None else figures.count(stop),
            figures.count(offsets),
            "no record is so new: the end" if row.get("at_end") else "",
        )
    parts: list[RenderableType] = [Text("Plan", style="bold"), summary, table]
    if target.get("ranges"):
        parts += ["", Text("Range of the target", style="bold"), _ranges_table(target["ranges"])]
    if plan.get("forecast"):
        parts += ["", Text("Forecast", style="bold"), forecast_facts(plan["forecast"])]
    if plan.get("impact"):
        parts += ["", Text("Who reads the target", style="bold"), _impact_table(plan["impact"])]
    findings = plan.get("findings") or []
    return [*parts, "", _findings_table(findings)] if findings else parts


def _impact_table(rows: Sequence[Document]) -> Table:
    table = columns("KIND", "NAME", "UNIT", "BEHAVIOUR", "OWNER", "SEEN BY")
    for row in rows:
        unit, owner = row["unit"] or figures.NONE, row["owner"] or figures.NONE
        table.add_row(row["kind"], row["name"], unit, row["behaviour"], owner, row["seen_by"])
    return table


def _budget_text(budget: Document | None) -> str | None:
    if budget is None:
        return None
    rate = budget["bytes_per_s"]
    return f"{'unlimited' if rate is None else figures.rate(rate)} ({budget['mode']}): {budget['why']}"


def progress_table(document: Document) -> Table:
    """Durable position per partition."""
    table = columns(">PARTITION", ">POSITION", ">STOP", ">LEFT", "STATE")
    for row in document["progress"]["partitions"]:
        stop = row.get("stop")
        left = None if stop is None else max(0, stop - row["position"])
        cells = (str(row["partition"]), figures.count(row["position"]), figures.count(stop), figures.count(left))
        table.add_row(*cells, row.get("state", figures.NONE))
    return table


def _verified(document: Document) -> Table:
    """How far the verification came, on both sides together."""
    progress = document["progress"]
    read = f"{figures.count(progress['verified_offsets'])} of {figures.count(progress['offsets_to_verify'])} offsets"
    is_moving = document["state"] == "verifying"
    return facts(
        ("read", f"{read}, {figures.percent(figures.verified_ratio(document))}"),
        ("records", f"{figures.count(progress['verified_records'])}, {figures.size(progress['verified_bytes'])}"),
        ("rate", figures.rate(progress.get("bytes_per_s")) if is_moving else None),
        ("left", figures.duration(progress.get("eta_seconds")) if is_moving else None),
    )


def timeline_table(events: Iterable[Document]) -> Table:
    """One line per event: when, what, why."""
    table = columns("TIME", "EVENT", "WHAT")
    for event in events:
        name = str(event.get("type", "")).removeprefix(_EVENT_PREFIX).removesuffix(".v1")
        table.add_row(figures.clock_time(event.get("time")), name, Text(_event_text(event)))
    return table


def clock(document: Document) -> str:
    """`06:00:05` (UTC), when the status was made."""
    moment = figures.parse_time(document.get("updated"))
    return figures.NONE if moment is None else f"{moment:%H:%M:%S}"


def progress_line(document: Document) -> str:
    """One line for logs and pipes: `running 61% 205,000 records, 41.0 MB/s, lag 131,000, 12 s left: why`;
    of what failed, its code is in front of why.
    """
    progress = document.get("progress") or {}
    parts = [document["state"]]
    is_verified = document["state"] == "verifying" or document.get("kind") == "verification"
    ratio = figures.verified_ratio(document) if is_verified else figures.progress_ratio(document)
    if ratio is not None and document["state"] in _COPIES:
        parts.append(figures.percent(ratio))
    records = progress.get("verified_records" if is_verified else "records")
    told = [f"{figures.count(records)} records {'compared' if is_verified else ''}".rstrip()] if records else []
    if is_verified and document["state"] == "verifying" and progress.get("bytes_per_s"):
        told.append(figures.rate(progress["bytes_per_s"]))
        if progress.get("eta_seconds") is not None:
            told.append(f"{figures.duration(progress['eta_seconds'])} left")
    if document["state"] in {"running", "pausing", "stopping"} and progress.get("bytes_per_s"):
        told.append(figures.rate(progress["bytes_per_s"]))
        if progress.get("lag_records") is not None:
            told.append(f"lag {figures.count(progress['lag_records'])}")
        if progress.get("eta_seconds") is not None:
            told.append(f"{figures.duration(progress['eta_seconds'])} left")
    line = " ".join(part for part in [*parts, ", ".join(told)] if part)
    return ": ".join(filter(None, (line, told_why(document))))


def live_view(document: Document) -> RenderableType:
    """What `watch` redraws on a terminal."""
    parts: list[RenderableType] = [
        Text(f"{clock(document)} {progress_line(document)}", style=_STATE_STYLES.get(document["state"], ""))
    ]
    if (document.get("progress") or {}).get("partitions"):
        parts.append(progress_table(document))
    return Group(*parts)


def state_text(state: str) -> Text:
    return Text(state, style=_STATE_STYLES.get(state, ""))


def _heading(document: Document) -> Table:
    command, limits = document.get("command") or {}, document.get("limits") or {}
    wanted = {name: value for name, value in (limits.get("requested") or {}).items() if value is not None}
    asked = ", ".join(f"{name} {figures.limit(name, value)}" for name, value in wanted.items())
    held = limits.get("effective_bytes_per_s")
    return facts(
        ("recovery", document["recovery"]),
        ("kind", document.get("kind")),
        ("state", document["state"]),
        ("why", told_why(document)),
        ("reason", command.get("reason")),
        ("command", f"{command.get('id', figures.NONE)} from {command.get('source', figures.NONE)}"),
        ("created", figures.clock_time(document.get("created"))),
        ("updated", f"{figures.clock_time(document.get('updated'))}, version {document.get('version', figures.NONE)}"),
        ("attempt", document.get("attempt")),
        (
            "limits",
            None
            if any(document.get(kind) for kind in ("watch", "workflow", "schedule", "hold"))
            else f"asked: {asked or 'none'}; in effect: {figures.rate(held) if held else 'no limit'}",
        ),
        ("rule", limits.get("rule")),
    )


def _ranges_table(ranges: Sequence[Document]) -> Table:
    table = columns(">PARTITION", ">START", ">STOP", ">OFFSETS")
    for row in ranges:
        cells = (figures.count(row["start"]), figures.count(row["stop"]), figures.count(row["stop"] - row["start"]))
        table.add_row(str(row["partition"]), *cells)
    return table


def _findings_table(findings: Sequence[Document]) -> Table:
    table = columns("FINDING", "SEVERITY", "WHAT")
    for finding in findings:
        severity = Text(finding["severity"], style=_SEVERITY_STYLES.get(finding["severity"], ""))
        table.add_row(finding["code"], severity, Text(finding["message"]))
    return table


def _event_text(event: Document) -> str:
    data = event.get("data") or {}
    text = data.get("message") or data.get("why") or ""
    if not text:
        text = ", ".join(f"{name} {value}" for name, value in data.items())
    if data.get("from") and data.get("to"):
        text = f"{data['from']} -> {data['to']}: {text}"
    return f"{data['code']} {text}" if data.get("code") else str(text)


def _eta_text(eta: Document | None) -> str:
    if not eta:
        return "for ever, as things are"
    return interval(eta)


def _topic(topic: Document) -> str:
    return f"{topic.get('topic')} on {topic.get('cluster')}"

"""What people see of a schedule: when it is due, what it sends, its runs, and where the last one ended."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.output import as_yaml
from recoveryd.cli.render.tables import asker, columns, facts
from recoveryd.cli.status import Document, told_why

_WIDE = (">FIRED", ">COMPLETED", "RUN", "OVERRUN", "BY")
_COUNTS = ("fired", "late", "skipped", "completed", "stopped", "failed", "refused")


def schedules_table(documents: Sequence[Document], *, is_wide: bool = False) -> Table:
    """Wide: also how many runs were fired and completed, which one was the last, and who made the schedule."""
    more = _WIDE if is_wide else ()
    table = columns("SCHEDULE", "STATE", "CRON", "ZONE", "SENDS", "NEXT RUN (UTC)", "FITS", "LAST RUN", *more, "WHY")
    if len(documents) > 1:
        table.columns[-1].no_wrap, table.columns[-1].overflow = True, "ellipsis"
    for document in documents:
        schedule = document["schedule"]
        table.add_row(
            document["recovery"],
            document["state"],
            str(schedule.get("cron")),
            str(schedule.get("time_zone")),
            str((schedule.get("command") or {}).get("verb")),
            _minute(schedule.get("next_run")),
            _fits(schedule.get("forecast")),
            "running" if schedule.get("run") else (schedule.get("last_run") or {}).get("outcome") or figures.NONE,
            *(_wide_cells(document) if is_wide else ()),
            Text(told_why(document)),
        )
    return table


def _wide_cells(document: Document) -> tuple[str, ...]:
    schedule = document["schedule"]
    counts, run = schedule.get("counts") or {}, schedule.get("run") or schedule.get("last_run") or {}
    told = (counts.get("fired"), counts.get("completed"), run.get("recovery"), schedule.get("overrun"))
    return (*(figures.NONE if value is None else str(value) for value in told), asker(document))


def schedule_parts(document: Document) -> list[RenderableType]:
    """The schedule of a status record of that kind."""
    schedule = document["schedule"]
    command, counts = schedule.get("command") or {}, schedule.get("counts") or {}
    parts: list[RenderableType] = [
        "",
        Text("Schedule", style="bold"),
        facts(
            ("due", f"{schedule.get('cron')} in {schedule.get('time_zone')}"),
            ("next run", figures.clock_time(schedule["next_run"]) if schedule.get("next_run") else None),
            ("fits", _forecast(schedule["forecast"]) if schedule.get("forecast") else None),
            ("waits", figures.clock_time(schedule["queued"]) if schedule.get("queued") else None),
            ("overrun", schedule.get("overrun")),
            ("runtime", f"at most {schedule['max_runtime']}" if schedule.get("max_runtime") else None),
            ("runs", ", ".join(f"{name} {counts[name]}" for name in _COUNTS if counts.get(name))),
        ),
        "",
        Text(f"Sends {command.get('verb')} {command.get('subject') or ''}".rstrip(), style="bold"),
        Text(as_yaml(command.get("data") or {}).rstrip()),
    ]
    for name, title in (("run", "Run that goes on"), ("last_run", "Last run")):
        if schedule.get(name):
            parts += ["", Text(title, style="bold"), _run(schedule[name])]
    if schedule.get("last_end"):
        parts += ["", Text("Where the next run starts", style="bold"), _end(schedule["last_end"])]
    return parts


def _fits(forecast: Document | None) -> str:
    return figures.NONE if forecast is None else "yes" if forecast["fits"] else "NO"


def _forecast(forecast: Document) -> str:
    verdict = "the next run is expected to fit" if forecast["fits"] else "THE NEXT RUN IS NOT EXPECTED TO FIT"
    return f"{verdict}: {forecast['expected']} of {forecast['interval']}, by the last {forecast['runs']}"


def _run(run: Document) -> Table:
    answer = run.get("answer") or {}
    told = ": ".join(str(answer[name]) for name in ("kind", "code", "message") if answer.get(name))
    return facts(
        ("recovery", run.get("recovery")),
        ("due", figures.clock_time(run.get("due"))),
        ("fired", figures.clock_time(run.get("fired"))),
        ("deadline", figures.clock_time(run["deadline"]) if run.get("deadline") else None),
        ("command", run.get("command_id")),
        ("answer", told),
        ("outcome", run.get("outcome")),
        ("why", run.get("why")),
        ("ended", figures.clock_time(run["ended"]) if run.get("ended") else None),
    )


def _end(end: Document) -> Table:
    table = columns("TOPIC", ">PARTITION", ">OFFSET", "AS OF")
    for partition, offset in (end.get("offsets") or {}).items():
        table.add_row(str(end.get("topic")), partition, figures.count(offset), str(end.get("recovery")))
    return table


def _minute(moment: str | None) -> str:
    return figures.clock_time(moment)[:16] if moment else figures.NONE

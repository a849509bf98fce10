"""What people see of a watch: the facts of its command, the partitions that are not there yet, and the webhook."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.tables import columns, facts
from recoveryd.cli.status import Document


def watch_parts(document: Document) -> list[RenderableType]:
    """The watch of a status record of that kind."""
    watch = document["watch"]
    progress = watch.get("progress") or {}
    parts: list[RenderableType] = [
        "",
        Text("Watch", style="bold"),
        facts(
            ("group", f"{watch.get('group')} on {watch.get('cluster')}"),
            ("topics", ", ".join(watch.get("topics") or ())),
            ("until", until_text(watch.get("until"))),
            ("then", then_text(watch.get("then"))),
            ("deadline", figures.clock_time(watch.get("deadline")) if watch.get("deadline") else None),
            ("tolerance", f"{watch['tolerance_records']} records" if watch.get("tolerance_records") else None),
            ("there", f"{progress.get('done', figures.NONE)} of {progress.get('planned', figures.NONE)} partitions"),
            ("lag", f"{figures.count(progress.get('lag_records'))} records, {_late(progress)}"),
            ("zero lag", f"in {progress['evaluations']} looks in a row" if progress.get("evaluations") else None),
        ),
    ]
    if progress.get("partitions"):
        parts += ["", Text("Not there yet, worst first", style="bold"), _partitions(progress["partitions"])]
    if watch.get("delivery"):
        parts += ["", Text("Webhook", style="bold"), _delivery(watch["delivery"])]
    if watch.get("unit_stop"):
        stop = watch["unit_stop"]
        rows = facts(("unit", stop["unit"]), ("state", stop["state"]), ("since", figures.clock_time(stop["wanted"])))
        parts += ["", Text("Stop", style="bold"), rows, Text(stop["message"])]
    return parts


def until_text(until: object) -> str:
    if isinstance(until, dict) and "deadline" in until:
        return figures.clock_time(until["deadline"])
    if isinstance(until, dict):
        offsets = until.get("offsets") or {}
        return "; ".join(
            f"{topic} " + ", ".join(f"{p}={n}" for p, n in found.items()) for topic, found in offsets.items()
        )
    return "caught up: zero lag that stays" if until == "caught_up" else str(until)


def then_text(then: object) -> str:
    if not isinstance(then, dict):
        return str(then)
    return f"stops {then['stop']}" if "stop" in then else f"calls the webhook {then['webhook']}"


def _late(progress: Document) -> str:
    seconds = progress.get("lag_seconds")
    return "age not known" if seconds is None else f"{figures.duration(seconds)} late"


def _partitions(rows: list[Document]) -> Table:
    table = columns("TOPIC", ">PARTITION", ">POSITION", ">WANTED", ">END", "VERDICT")
    for row in rows:
        numbers = (figures.count(row.get(name)) for name in ("position", "wanted", "end"))
        table.add_row(str(row["topic"]), str(row["partition"]), *numbers, str(row.get("verdict")))
    return table


def _delivery(delivery: Document) -> Table:
    return facts(
        ("webhook", delivery.get("webhook")),
        ("state", delivery.get("state")),
        ("delivery", delivery.get("id")),
        ("answer", delivery.get("message")),
        ("tries", delivery.get("attempts") or None),
    )

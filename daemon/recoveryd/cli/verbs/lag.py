"""`recoveryctl lag`: how far watched consumer groups are behind, with the verdict on each and how sure it is.

The verdicts are the daemon's (`GET /api/v1/lag`): it has the samples, this only shows them. A lag that is not known is
`-`, never 0.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.options import Format, Output, argument
from recoveryd.cli.render.output import note, show
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.status import Document
from recoveryd.kernel.catalogue import Code

_STYLES = {
    "ok": "green",
    "idle": "green",
    "catching_up": "cyan",
    "unknown": "yellow",
    "falling_behind": "yellow",
    "blocked_by_txn": "yellow",
    "stalled": "red",
    "stopped": "red",
    "rewound": "yellow",
    "invalid": "red",
    "data_lost": "bold red",
}
_SURE = (">AGE", ">WINDOW", ">LOST", "WHY")


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Look")(lag)


@connected
def lag(
    connection: Connection,
    group: Annotated[str | None, argument("GROUP", "With every partition of it; all groups when left out.")] = None,
    output: Output = Format.TABLE,
) -> int:
    """Lag and verdict of the consumer groups that the daemon watches, from its HTTP API (--http or `http.listen`)."""
    from recoveryd.cli.send.http_reader import read_lag  # noqa: PLC0415

    found = read_lag(connection.daemon_url)
    groups = [entry for entry in found["groups"] if group in {None, entry["group"]}]
    if group is not None and not groups:
        known = sorted({entry["group"] for entry in found["groups"]})
        hint = f"Watched: {', '.join(known)}." if known else "Name it under `monitor.topics` of the daemon's config."
        raise Failure(Code.NO_SUCH_GROUP, f"The daemon watches no group `{group}`.", hint)
    names = list(dict.fromkeys(entry["group"] for entry in groups))
    show({**found, "groups": groups}, output, lambda: _tables(groups, with_partitions=group is not None), names)
    if not groups and output.is_table:
        note("The daemon watches no consumer group; name one under `monitor.topics` of its config.")
    return ExitCode.DONE


def _tables(groups: Sequence[Document], *, with_partitions: bool) -> "list[RenderableType]":
    from rich.text import Text  # noqa: PLC0415

    parts: list[RenderableType] = [_groups_table(groups)]
    for entry in groups if with_partitions else ():
        parts += ["", Text(f"{entry['topic']} on {entry['cluster']}", style="bold"), _partitions_table(entry)]
        hidden = entry["partitions_planned"] - len(entry["partitions"])
        if hidden > 0 and entry["partitions"]:
            parts.append(Text(f"and {hidden:,} more partitions"))
    return parts


def _groups_table(groups: Sequence[Document]) -> "RenderableType":
    from recoveryd.cli.render import figures  # noqa: PLC0415
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("GROUP", "TOPIC", "VERDICT", ">LAG", ">TIME LAG", ">SLO", ">COVERAGE", *_SURE)
    for entry in groups:
        slo, coverage = figures.duration(entry["slo_seconds"]), figures.percent(entry["coverage"])
        table.add_row(
            entry["group"], entry["topic"], _verdict(entry["verdict"]), *_lag(entry), slo, coverage, *_sure(entry)
        )
    return table


def _partitions_table(entry: Document) -> "RenderableType":
    from recoveryd.cli.render import figures  # noqa: PLC0415
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns(">PARTITION", "VERDICT", ">RULE", ">POSITION", ">END", ">LAG", ">TIME LAG", *_SURE)
    for row in entry["partitions"]:
        place = (figures.count(row["position"]), figures.count(row["end"]))
        table.add_row(
            str(row["partition"]), _verdict(row["verdict"]), str(row["rule"]), *place, *_lag(row), *_sure(row)
        )
    return table


def _lag(row: Document) -> tuple[str, ...]:
    from recoveryd.cli.render import figures  # noqa: PLC0415

    return figures.count(row["lag_records"]), figures.duration(row["lag_seconds"])


def _sure(row: Document) -> tuple[str, ...]:
    """How old and how whole the samples are, and why the verdict is this."""
    from recoveryd.cli.render import figures  # noqa: PLC0415

    age_ms = row["sample_age_ms"]
    age = figures.duration(None if age_ms is None else age_ms / 1000)
    return age, figures.percent(row["fill"]), figures.count(row["lost"]), row["why"]


def _verdict(name: str) -> "RenderableType":
    from rich.text import Text  # noqa: PLC0415

    return Text(name, style=_STYLES.get(name, ""))

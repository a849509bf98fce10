"""`recoveryctl topics`: compare topics (`topics_compared`), and `apply`: create recoveryd's own topics where they are
missing, report what differs, change nothing that exists.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.adapters.kafka.own_topics import TopicReport

from recoveryd.cli.failure import ExitCode
from recoveryd.cli.options import Format, Output, option
from recoveryd.cli.render.output import note, show
from recoveryd.cli.send.connect import Connection, known_cluster
from recoveryd.cli.send.connected import connected
from recoveryd.cli.verbs.topics_compared import diff_topics, list_topics

_group = typer.Typer(help="Topics: list and compare them, and make recoveryd's own.", no_args_is_help=True)


class Row(TypedDict):
    """One own topic; `differences` are sentences, `fatal` says whether the daemon refuses to start."""

    cluster: str
    topic: str
    state: str  # created | ok | differs
    fatal: bool
    differences: list[str]


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="topics", rich_help_panel="Set up")


@_group.callback()
def _topics() -> None:
    """Topics of the clusters, and recoveryd's own."""


@_group.command()
@connected
def apply(
    connection: Connection,
    cluster: Annotated[
        str | None, option("--cluster", "Only on this cluster; all of the config when left out.", "NAME")
    ] = None,
    output: Output = Format.TABLE,
) -> int:
    """Create what is missing and report, but never change, what differs. Doing it again is harmless."""
    import asyncio  # noqa: PLC0415  (help must not pay for it)

    settings = connection.settings
    wanted = list(settings.values.clusters) if cluster is None else [known_cluster(settings, cluster)]
    rows = asyncio.run(_apply(connection, wanted))
    show(rows, output, lambda: [_table(rows)], [row["topic"] for row in rows])
    wrong = [row for row in rows if row["fatal"]]
    if wrong:
        note(f"The daemon does not start like this: correct {', '.join(row['topic'] for row in wrong)}.")
    return ExitCode.FAILED if wrong else ExitCode.DONE


_group.command("list")(list_topics)
_group.command("diff")(diff_topics)


async def _apply(connection: Connection, clusters: Sequence[str]) -> list[Row]:
    async with connection.clusters() as kafka:
        replication = connection.settings.values.topics.replication_factor
        return [_row(name, report) for name in clusters for report in await kafka.apply_own_topics(name, replication)]


def _row(cluster: str, report: "TopicReport") -> Row:
    return {
        "cluster": cluster,
        "topic": report.topic,
        "state": "created" if report.created else "differs" if report.differences else "ok",
        "fatal": any(d.fatal for d in report.differences),
        "differences": [f"{d.setting} is {d.found}, wanted {d.wanted}" for d in report.differences],
    }


def _table(rows: Sequence[Row]) -> "RenderableType":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("CLUSTER", "TOPIC", "STATE", "DIFFERENCES")
    for row in rows:
        table.add_row(row["cluster"], row["topic"], row["state"], "; ".join(row["differences"]))
    return table

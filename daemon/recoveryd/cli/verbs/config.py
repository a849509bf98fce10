"""`recoveryctl config validate|show|schema`: the daemon's config as the daemon would read it."""

import asyncio
import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.settings import Settings

from recoveryd.cli.failure import ExitCode
from recoveryd.cli.options import Format, Output
from recoveryd.cli.render.output import as_json, note, say, show
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected

_group = typer.Typer(help="The daemon's config.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="config", rich_help_panel="Set up")


@_group.command()
@connected
def validate(connection: Connection) -> int:
    """Read the config strictly, and the files that it names, as a daemon on this machine would; a wrong key is named
    with its line and the nearest right one.
    """
    from recoveryd.settings.renewing import cluster_again  # noqa: PLC0415

    settings = connection.settings_of_daemon
    values = settings.values
    settings.units()  # reads the texts of their topologies
    for profile in values.profiles:
        settings.spark_conf(profile)  # reads its secrets
    for cluster in values.clusters:
        cluster_again(settings, cluster)
    asyncio.run(_make_controls(settings))
    which = f": {connection.origin}" if connection.context is not None else ""  # a config that nobody named
    note(f"The config is good{which}. Clusters: {', '.join(values.clusters)}. Profiles: {', '.join(values.profiles)}.")
    return ExitCode.DONE


async def _make_controls(settings: "Settings") -> None:
    """As the daemon does when it starts, for nothing but the problem that there may be."""
    from recoveryd.adapters.control.make import make_controls  # noqa: PLC0415
    from recoveryd.bootstrap.outside import surroundings, webhook_targets  # noqa: PLC0415

    around = surroundings(settings, webhook_targets(settings), lambda: int(time.time() * 1000))
    await make_controls(settings.control_options(), around).close()


@_group.command("show")
@connected
def show_config(connection: Connection, output: Output = Format.TABLE) -> int:
    """Every option with its effective value and where it comes from; secrets are masked."""
    shown = connection.settings_of_daemon.show()
    document = {value.key: {"value": value.value, "origin": value.origin} for value in shown}

    def table() -> "list[RenderableType]":
        from rich.text import Text  # noqa: PLC0415

        from recoveryd.cli.render.tables import columns  # noqa: PLC0415

        made = columns("KEY", "VALUE", "FROM")
        for value in shown:
            made.add_row(value.key, Text("null" if value.value is None else str(value.value)), Text(value.origin))
        return [made]

    show(document, output, table, list(document))
    return ExitCode.DONE


@_group.command()
def schema() -> int:
    """Print the JSON Schema of the config file, for editors."""
    from recoveryd.settings import schema as config_schema  # noqa: PLC0415  (pydantic is slow to import)

    say(as_json(config_schema()))
    return ExitCode.DONE

"""`recoveryctl completion bash|zsh|fish`: the script that makes the shell complete verbs, options and recovery ids.

Only the script is printed; nothing is written to anybody's home. Ids are read from the status topic; what does not answer completes to nothing rather
than to an error in the middle of somebody's typing.
"""

from contextlib import suppress
from enum import StrEnum
from typing import Annotated

import typer

from recoveryd.cli.send.connect import Connection, Tools


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Set-up")(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell to make the script for.", show_default=False)],
) -> None:
    """Print a shell's completion script, for instance for `source <(recoveryctl completion bash)`."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # noqa: PLC0415

    from recoveryd.cli.app import COMPLETE_VARIABLE, PROGRAM  # noqa: PLC0415  (app imports this module)

    print(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell.value))


def complete_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of recoveries that start as typed, with their state as help."""
    tools = ctx.find_root().obj or Tools()
    given = ctx.params
    with (
        suppress(Exception),
        Connection(given.get("bootstrap"), given.get("config"), given.get("http"), tools) as found,
    ):
        statuses = found.backend.statuses()
        return [(name, status["state"]) for name, status in statuses.items() if name.startswith(incomplete)]
    return []

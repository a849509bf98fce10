"""`recoveryctl completion bash|zsh|fish`: the script that makes the shell complete verbs, options and recovery ids.

Only the script is printed; nothing is written to anybody's home. Ids are completed by `send.connected`.
"""

from enum import StrEnum
from typing import Annotated

import typer

from recoveryd.cli.options import COMPLETE_VARIABLE, PROGRAM, argument
from recoveryd.cli.render.output import say


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Set up")(completion)


def completion(
    shell: Annotated[Shell, argument(None, "The shell to make the script for.")],
) -> None:
    """Print a shell's completion script, for instance for `source <(recoveryctl completion bash)`."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # noqa: PLC0415

    say(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell.value))

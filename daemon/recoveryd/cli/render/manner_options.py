"""The options that say how the program speaks. Every verb takes them, and the program itself does, so that it does not
matter where they stand.
"""

from typing import Annotated, Any, Final

import typer

from recoveryd.cli.options import option
from recoveryd.cli.render.manner import manner

PANEL: Final = "Talking"


def _be_quiet(wanted: bool) -> None:
    manner.quiet |= wanted


def _be_verbose(wanted: bool) -> None:
    manner.verbose |= wanted


def _be_colourless(wanted: bool) -> None:
    manner.colour &= not wanted


def _tell_tracebacks(wanted: bool) -> None:
    manner.debug |= wanted


def _speak(
    quiet: Annotated[
        bool,
        option("-q --quiet", "No hints and no progress; errors and questions stay.", panel=PANEL, callback=_be_quiet),
    ] = False,
    verbose: Annotated[
        bool, option("-v --verbose", "Say where it connects to and what was sent.", panel=PANEL, callback=_be_verbose)
    ] = False,
    no_color: Annotated[bool, option("--no-color", "As with NO_COLOR.", panel=PANEL, callback=_be_colourless)] = False,
    debug: Annotated[
        bool, option("--debug", "Show the traceback of an error.", panel=PANEL, callback=_tell_tracebacks)
    ] = False,
) -> None:
    raise AssertionError(f"only its options are wanted, not {quiet}, {verbose}, {no_color}, {debug}")


def make_manner_options() -> list[Any]:
    """New ones, since an option belongs to one command; no verb sees their values."""
    bare = typer.Typer(add_completion=False)
    bare.command()(_speak)
    options = [each for each in typer.main.get_command(bare).params if each.name != "help"]
    for each in options:
        each.expose_value = False
    return options

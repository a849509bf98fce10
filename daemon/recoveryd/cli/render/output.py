"""Where text goes: data to stdout, everything else to stderr. No other module of the command line prints, so that what
others wrote reaches no terminal unchanged (`harmless`).

Rich is imported only when a table or a colour is wanted, so that help and `-o name` stay quick. `NO_COLOR` and pipes
switch colour off (Rich knows both); in a pipe tables keep their full width, so that no value is cut.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recoveryd.cli.failure import Failure
from recoveryd.cli.options import Format
from recoveryd.cli.render.harmless import bounded, harmless
from recoveryd.cli.render.json_path import select
from recoveryd.cli.render.manner import manner
from recoveryd.errors import RecoverydError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PIPE_WIDTH = 10_000  # tables take what they need of it, so that nothing is cut or folded


def open_missing_streams() -> None:
    """Python has None for one that was closed by whoever started us (`2>&-`). What is told there is for nobody then,
    and must not come out elsewhere, as `print` would have it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  (open until the end)


def is_interactive() -> bool:
    """May we ask? Only when a person can both see the question (stderr) and answer it (stdin)."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def stdout_console() -> "Console":
    return _console(stderr=False)


def stderr_console(*, asks: bool = False) -> "Console":
    """For progress, which `-q` leaves out, or for what a question is about (`asks`)."""
    return _console(stderr=True, quiet=manner.quiet and not asks)


def _console(*, stderr: bool, quiet: bool = False) -> "Console":
    from recoveryd.cli.render.console import HarmlessConsole  # noqa: PLC0415  (help must not pay for Rich)

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    return HarmlessConsole(stream, width, colour=manner.colour, quiet=quiet)


def show(
    value: object, wanted: Format, table: Callable[[], "Sequence[RenderableType]"], names: Sequence[str] = ()
) -> None:
    """Print one value to stdout in the wanted form. `table` is called only when tables are wanted; `names` are the
    lines of `-o name`.
    """
    if wanted.json_path is not None:
        _show_parts(value, wanted.json_path)
        return
    match wanted:
        case Format.JSON:
            say(as_json(value))
        case Format.JSONL:
            for row in value if isinstance(value, list) else [value]:
                say(as_line(row))
        case Format.YAML:
            say(as_yaml(value), end="")
        case Format.NAME:
            for name in names:
                say(name)
        case _:
            console = stdout_console()
            for part in table():
                console.print(part)


def _show_parts(value: object, path: str) -> None:
    """A line for each; texts as they are, so that a shell can use them."""
    found = [part for part in select(value, path) if part is not None]
    for part in found:
        say(part if isinstance(part, str) else as_line(part))
    if not found:
        note(f"Nothing stands at {path}; `-o json` shows what there is.")


def as_line(value: object) -> str:
    """JSON without a line end in it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def as_yaml(value: object) -> str:
    import yaml  # noqa: PLC0415

    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=160)
    if harmless(text) == text:
        return text
    return yaml.safe_dump(value, sort_keys=False, width=160)  # an escape of ours would be another value in YAML


def say(text: str, end: str = "\n") -> None:
    """Data that is no table, to stdout."""
    print(harmless(text), end=end)


def flush() -> None:
    """What was said is there for whoever reads it, also through a pipe."""
    sys.stdout.flush()


def note(text: str, *, colour: str = "", end: str = "\n") -> None:
    """A hint or a progress line for people, to stderr; `-q` leaves it out. `colour` is an ANSI number."""
    if not manner.quiet:
        _tell(text, colour=colour, end=end)


def detail(text: str) -> None:
    """What only `-v` wants to know."""
    if manner.verbose:
        _tell(text)


def confirm(question: str) -> bool:
    """Ask on stderr, read the answer from stdin; anything but y or yes is no, Ctrl-C too. (The usual prompts write to
    stdout, which carries data only.)
    """
    _tell(f"{question} [y/N]: ", end="")
    try:
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    except KeyboardInterrupt:
        _tell("")
        return False


def print_failure(failure: RecoverydError, exit_code: int) -> None:
    """`RCV-1012 sentence`, in red on a terminal, and `next: step`; one line of JSON where results are JSON too."""
    message, hint = bounded(failure.message), bounded(failure.hint)
    if manner.json_errors:
        told = {"code": failure.code.value, "message": message, "next": hint, "exit_code": exit_code}
        _tell(as_line({"error": told | dict(failure.facts if isinstance(failure, Failure) else {})}))
        return
    is_red = sys.stderr.isatty() and manner.colour and not os.environ.get("NO_COLOR")
    _tell(f"{failure.code.value} {message}", colour="31" if is_red else "")
    _tell(f"  next: {hint}")


def tell_detached(text: str, facts: Mapping[str, object]) -> None:
    """What became of what was sent when Ctrl-C came, which `-q` does not take back; one line of JSON, with the facts,
    where results are JSON too.
    """
    _tell(as_line({"detached": {"message": text, **facts}}) if manner.json_errors else f"\n{text}")


def tell_traceback(text: str) -> None:
    """Of `--debug`, which `-q` does not take back."""
    _tell(text, end="")


def _tell(text: str, *, colour: str = "", end: str = "\n") -> None:
    told = harmless(text)
    print(f"\x1b[{colour}m{told}\x1b[0m" if colour else told, end=end, file=sys.stderr, flush=True)

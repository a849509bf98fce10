"""`recoveryctl top`: live and replay traffic, headroom, the controlling rule and every recovery, on one screen that
moves.

It reads the daemon's HTTP API; keys send the same commands as the verbs do. Without a terminal one screen is printed.
"""

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.cli.render.top import CountersRead, Frame

from recoveryd.cli.failure import ExitCode
from recoveryd.cli.options import option
from recoveryd.cli.render.output import stdout_console
from recoveryd.cli.send.command import make_record
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.http_reader import HttpReader, no_kafka
from recoveryd.cli.send.sending import send
from recoveryd.cli.send.values import parse_duration_s, parse_size
from recoveryd.cli.status import Document
from recoveryd.errors import RecoverydError

_REASON = "by hand, in recoveryctl top"
_VERBS = {"p": "pause", "r": "resume"}
_MOVES = {"j": 1, "k": -1, "\x1b[B": 1, "\x1b[A": -1}


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Look")(top)


@connected
def top(
    connection: Connection,
    every: Annotated[str, option("--every", "How often it is drawn.", "DURATION", shows_default=True)] = "1s",
) -> int:
    """Watch everything on one screen: traffic, headroom of what is protected, the rule in force, every recovery. Keys
    pause, resume and throttle.
    """
    period_s = max(0.2, parse_duration_s(every, "--every"))
    reader = HttpReader(connection.daemon_url, no_kafka)
    first = _read(reader)
    console = stdout_console()
    if not (console.is_terminal and sys.stdin.isatty()):
        from recoveryd.cli.render.top import Screen  # noqa: PLC0415  (help must not pay for Rich)

        console.print(Screen(first, (), 0, ""))
        return ExitCode.DONE
    from rich.live import Live  # noqa: PLC0415

    with _single_keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        shown = _Watching(connection, reader, first)
        _run(shown, lambda: live.update(shown.draw(console.height), refresh=True), keys, period_s)
    return ExitCode.DONE


class _Watching:
    """What is shown, and what keys change of it."""

    def __init__(self, connection: Connection, reader: HttpReader, first: "Frame") -> None:
        self._connection = connection
        self._reader = reader
        self._counted: Sequence[CountersRead] = ()
        self.now = first
        self._count(first)
        self.chosen = 0
        self.told = ""
        self._away = ""  # why the picture is old
        self._typed: str | None = None  # a rate that is being typed

    def look(self) -> None:
        """Keeps the last picture when the daemon is away for a moment, and says so."""
        try:
            frame = _read(self._reader)
        except RecoverydError as problem:
            self._away = f"{problem.code.value} {problem.message} next: {problem.hint}"
            return
        self._away = ""
        meant = [row["recovery"] for row in self._rows()][self.chosen : self.chosen + 1]
        self.now = frame
        self._count(frame)
        names = [row["recovery"] for row in self._rows()]
        # Rows move when recoveries begin and end; a key is for the one that was chosen, wherever it stands now.
        place = names.index(meant[0]) if meant and meant[0] in names else self.chosen
        self.chosen = max(0, min(place, len(names) - 1))

    def heed(self, key: str) -> bool:
        """False = leave."""
        if self._typed is not None:
            self._type(key)
            return True
        rows = self._rows()
        if key in {"q", "\x03"}:
            return False
        if key in _MOVES and rows:
            self.chosen = (self.chosen + _MOVES[key]) % len(rows)
        elif key in _VERBS and rows:
            self._send(_VERBS[key], {"reason": _REASON})
        elif key == "t" and rows:
            self._typed = ""
            self._ask()
        return True

    def _count(self, frame: "Frame") -> None:
        from recoveryd.cli.render.top import with_counted  # noqa: PLC0415

        self._counted = with_counted(self._counted, frame)

    def _rows(self) -> list[Document]:
        from recoveryd.cli.render.top import shown_recoveries  # noqa: PLC0415

        return shown_recoveries(self.now)

    def draw(self, lines: int) -> "RenderableType":
        from recoveryd.cli.render.top import Screen  # noqa: PLC0415

        return Screen(self.now, self._counted, self.chosen, self._away or self.told, lines)

    def _type(self, key: str) -> None:
        assert self._typed is not None
        if key in {"\r", "\n"}:
            typed, self._typed = self._typed, None
            self._throttle(typed)
        elif key == "\x1b":
            self._typed, self.told = None, ""
        else:
            self._typed = (
                self._typed[:-1] if key in {"\x7f", "\b"} else self._typed + key if key.isprintable() else self._typed
            )
            self._ask()

    def _ask(self) -> None:
        self.told = f"Bytes per second, like 10MB, or none (Esc leaves it): {self._typed}"

    def _throttle(self, typed: str) -> None:
        try:
            rate = None if typed.strip() == "none" else parse_size(typed, "the rate")
        except RecoverydError as problem:
            self.told = f"{problem.message} {problem.hint}"
            return
        self._send("throttle", {"reason": _REASON, "limits": {"max_bytes_per_s": rate}})

    def _send(self, verb: str, data: dict[str, object]) -> None:
        rows = self._rows()
        if not rows:
            return
        recovery = str(rows[min(self.chosen, len(rows) - 1)]["recovery"])
        try:
            answer = send(self._connection, make_record(verb, recovery, data, self._connection.names), 5.0)
            self.told = f"{verb} {recovery}: {(answer.get('data') or {}).get('message') or 'accepted'}"
        except RecoverydError as problem:
            self.told = f"{problem.code.value} {problem.message} next: {problem.hint}"


def _run(shown: _Watching, draw: Callable[[], None], keys: "_Keys", period_s: float) -> None:
    """Draw and heed keys until q or Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        next_s = time.monotonic() + period_s
        while True:
            draw()
            key = keys.read(max(0.0, next_s - time.monotonic()))
            if key and not shown.heed(key):
                return
            if time.monotonic() >= next_s:
                shown.look()
                next_s = time.monotonic() + period_s


def _read(reader: HttpReader) -> "Frame":
    from recoveryd.cli.render.top import ENDED_MOST, Frame, read_counters  # noqa: PLC0415

    recoveries = list(reader.statuses(ENDED_MOST).values())
    return Frame(time.monotonic(), recoveries, reader.control(), read_counters(reader.metrics()))


class _Keys:
    """What was typed, key by key; none is lost when several come at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = ""

    def read(self, timeout_s: float) -> str:
        """One key, "" when none came in time; the sequence of an arrow is one key."""
        if not self._held and select.select([self._descriptor], [], [], timeout_s)[0]:
            self._held = os.read(self._descriptor, 64).decode(errors="ignore")
        length = 3 if self._held.startswith("\x1b[") else 1
        key, self._held = self._held[:length], self._held[length:]
        return key


@contextlib.contextmanager
def _single_keys() -> Iterator[_Keys]:
    """Keys come one by one and are not shown; the terminal is as it was afterwards."""
    import termios  # noqa: PLC0415
    import tty  # noqa: PLC0415

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

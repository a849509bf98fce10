"""The flags of `replay`: one row per field of the record's data, saying where the value goes and how its text is read.

Both ways are made from the rows: flags over a document, and the command line that would say the same again. A field that is new in the contract needs
one row here.
"""

import functools
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from daemon.cli import values
from daemon.cli.connect import Document
from daemon.cli.failure import usage

Values = Mapping[str, Any]  # flag name -> what the user gave, only for flags that were given


@dataclass(frozen=True, slots=True)
class Flag:
    """`name` is the flag without dashes, `path` the field, `read` turns the text (and the flag, for errors) into the field's value."""

    name: str
    path: tuple[str, ...]
    help: str
    metavar: str | None = None
    kind: Any = str
    read: Callable[[Any, str], object] = lambda value, _flag: value
    panel: str = "What to copy"

    @property
    def parameter(self) -> str:
        return f"flag_{self.name.replace('-', '_')}"


def _start(text: str, flag: str) -> object:
    return values.parse_position(text, flag, values.FROM_WORDS)


def _stop(text: str, flag: str) -> object:
    return values.parse_position(text, flag, values.TO_WORDS)


_HOW, _LIMITS = "How", "Limits"
_BYTES_FORM = "SIZE"
_POSITION = "POSITION"

FLAGS: tuple[Flag, ...] = (
    Flag("source", ("source", "topic"), "Topic to read.", "TOPIC"),
    Flag("from", ("source", "from"), "earliest, offset:N, offsets:0=N,1=N, time with zone, or -2h.", _POSITION, read=_start),
    Flag(
        "to", ("source", "to"), "latest (pinned), caught_up (stops itself at zero lag), never, offset(s), time, or -2h.",
        _POSITION, read=_stop,
    ),
    Flag(
        "partitions", ("source", "partitions"), "Only these: 0,1 or 0-3; all when left out.", "LIST",
        read=lambda text, _flag: values.parse_partitions(text),
    ),
    Flag("source-cluster", ("source", "cluster"), "Named cluster of the daemon's config.", "NAME"),
    Flag("target", ("target", "topic"), "Topic to write.", "TOPIC"),
    Flag("create", ("target", "create"), "Create the target like the source.", kind=bool),
    Flag("target-cluster", ("target", "cluster"), "Named cluster of the daemon's config.", "NAME"),
    Flag("on-existing", ("target", "on_existing"), "When the target has records already.", kind=Literal["refuse", "append"]),
    Flag("mapping", ("target", "mapping"), "Partition of each record.", kind=Literal["same", "key_hash"], panel=_HOW),
    Flag(
        "add-header", ("target", "headers", "add"), "Header to add; may be repeated.", "NAME=TEXT", list[str],
        lambda pairs, _flag: values.parse_headers(pairs), _HOW,
    ),
    Flag("drop-header", ("target", "headers", "drop"), "Header to leave out; may be repeated.", "NAME", list[str], panel=_HOW),
    Flag(
        "on-data-loss", ("on_data_loss",), "When part of the range is gone.", kind=Literal["fail", "continue"], panel=_HOW
    ),
    Flag("verify", ("verify",), "How the target is proven.", kind=Literal["digest", "count", "none"], panel=_HOW),
    Flag("profile", ("job", "profile"), "Spark profile of the daemon's config.", "NAME", panel=_HOW),
    Flag("plan-hash", ("plan_hash",), "Run only if the plan made now has this hash.", "HASH", panel=_HOW),
    Flag(
        "max-bytes-per-s", ("limits", "max_bytes_per_s"), "Rate of all lanes together, like 10MB.", _BYTES_FORM,
        read=values.parse_size, panel=_LIMITS,
    ),
    Flag(
        "max-records-per-s", ("limits", "max_records_per_s"), "Rate of all lanes together.", "N",
        read=values.parse_count, panel=_LIMITS,
    ),
    Flag("max-bytes", ("limits", "max_bytes"), "Stop after so much.", _BYTES_FORM, read=values.parse_size, panel=_LIMITS),
    Flag("max-records", ("limits", "max_records"), "Stop after so many.", "N", read=values.parse_count, panel=_LIMITS),
    Flag("max-runtime", ("limits", "max_runtime"), "Stop after this time of running, like 2h.", "DURATION", panel=_LIMITS),
    Flag("deadline", ("limits", "deadline"), "Stop at this time with zone, or after 2h.", "TIME", panel=_LIMITS),
    Flag(
        "event-time", ("limits", "event_time"), "Stop when all partitions are past records of this time with zone.",
        "TIME", panel=_LIMITS,
    ),
    Flag("idle", ("limits", "idle"), "Stop when nothing came for this long, like 60s.", "DURATION", panel=_LIMITS),
    Flag(
        "mode", ("limits", "mode"), "controller yields to live traffic; left out: where something is protected.",
        kind=Literal["unlimited", "fixed", "controller"], panel=_LIMITS,
    ),
    Flag("weight", ("limits", "weight"), "Share next to other replays, 1 when left out.", "N", float, panel=_LIMITS),
    Flag("tier", ("limits", "tier"), "Lower ones are served first, 0 to 9.", "N", int, panel=_LIMITS),
    Flag(
        "override-live-slo", ("limits", "override_live_slo"), "Start although live traffic is over its SLO.", kind=bool,
        panel=_LIMITS,
    ),
    Flag("reason", ("reason",), "Why, for the record; required (1 to 500 characters).", "TEXT"),
)  # fmt: skip


REQUIRED = ("source", "from", "to", "target", "reason")


def with_flags(verb: Callable[..., int | None]) -> Callable[..., int | None]:
    """The verb with an option per row; it gets those that were given as `flags`."""

    @functools.wraps(verb)
    def with_given(*args: Any, **own: Any) -> int | None:
        taken = {flag.name: own.pop(flag.parameter) for flag in FLAGS}
        given = {name: value for name, value in taken.items() if value not in (None, [], False)}
        return verb(*args, flags=given, **own)

    signature = inspect.signature(verb, eval_str=True)
    first, *own = (p for p in signature.parameters.values() if p.name != "flags")
    added = [_parameter(flag) for flag in FLAGS]
    kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    with_given.__signature__ = signature.replace(parameters=[first, *added, *kept])  # type: ignore[attr-defined]
    return with_given


def overlay(document: Document, given: Values) -> Document:
    """The document with the given flags over it; what no flag names stays. The document itself is not changed."""
    merged = _copy(document)
    for flag, value in _given_flags(given):
        place = merged
        for part in flag.path[:-1]:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise usage(f"`{part}` of the file is no mapping, so --{flag.name} has no place.")
            place = inner
        place[flag.path[-1]] = flag.read(value, f"--{flag.name}")
    return merged


def require(document: Document) -> None:
    """Raises `Failure` naming the flag of the first field without which no replay is one."""
    for flag in FLAGS:
        if flag.name in REQUIRED and value_at(document, flag.path) in {None, ""}:
            raise usage(
                f"--{flag.name} is missing.",
                f"{flag.help} Give the flag, or the field `{'.'.join(flag.path)}` in -f FILE.",
            )


def value_at(document: Document, path: tuple[str, ...]) -> object:
    """The field's value, None when it or a part of its path is not there; what is no plain value counts as there."""
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return "..." if isinstance(value, dict | list) else value


def command_line(given: Values) -> str:
    """The flags as they would be typed again."""
    words: list[str] = []
    for flag, value in _given_flags(given):
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{flag.name}"] if flag.kind is bool else [f"--{flag.name}", shlex.quote(str(one))]
    return " ".join(words)


def _given_flags(given: Values) -> Iterator[tuple[Flag, Any]]:
    return ((flag, given[flag.name]) for flag in FLAGS if flag.name in given)


def _parameter(flag: Flag) -> inspect.Parameter:
    declared = f"--{flag.name}"
    option = typer.Option(
        declared, metavar=flag.metavar, help=flag.help, rich_help_panel=flag.panel, show_default=False
    )
    is_switch = flag.kind is bool
    kind = flag.kind if is_switch else flag.kind | None
    return inspect.Parameter(
        flag.parameter,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if is_switch else None,
        annotation=Annotated[kind, option],
    )


def _copy(document: Document) -> Document:
    return {name: _copy(value) if isinstance(value, dict) else value for name, value in document.items()}

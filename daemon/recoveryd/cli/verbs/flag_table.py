"""The flags of a verb that begins a recovery: one row per field of the record's data, saying where the value goes and
how its text is read.

Both ways are made from the rows: flags over a document, and the command line that would say the same again. The rows
are `recoveryd.cli.verbs.flags`.
"""

import copy
import functools
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from recoveryd.cli.failure import usage
from recoveryd.cli.options import option
from recoveryd.cli.status import Document

Values = Mapping[str, Any]  # flag name -> what the user gave, only for flags that were given


@dataclass(frozen=True, slots=True)
class Flag:
    """`name` is the flag without dashes, `path` the field, `read` turns the text (and the flag, for errors) into the
    field's value.
    """

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


@dataclass(frozen=True, slots=True)
class FlagTable:
    """All flags of `verb`; of a command without a file the `required` ones must be there."""

    verb: str
    rows: tuple[Flag, ...]
    required: tuple[str, ...]

    def on(self, verb: Callable[..., int | None]) -> Callable[..., int | None]:
        """The verb with an option per row; it gets those that were given as `flags`."""

        @functools.wraps(verb)
        def with_given(*args: Any, **own: Any) -> int | None:
            taken = {flag.name: own.pop(flag.parameter) for flag in self.rows}
            given = {name: value for name, value in taken.items() if _is_given(value)}
            return verb(*args, flags=given, **own)

        signature = inspect.signature(verb, eval_str=True)
        first, *own = (p for p in signature.parameters.values() if p.name != "flags")
        added = [_parameter(flag) for flag in self.rows]
        kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        with_given.__signature__ = signature.replace(parameters=[first, *added, *kept])  # type: ignore[attr-defined]
        return with_given

    def overlay(self, document: Document, given: Values) -> Document:
        """The document with the given flags over it; what no flag names stays. The document itself is not changed."""
        merged = copy.deepcopy(document)
        for flag, value in self._given(given):
            place = merged
            for part in flag.path[:-1]:
                inner = place.setdefault(part, {})
                if not isinstance(inner, dict):
                    raise usage(f"`{part}` of the file is no mapping, so --{flag.name} has no place.")
                place = inner
            place[flag.path[-1]] = flag.read(value, f"--{flag.name}")
        return merged

    def require(self, document: Document) -> None:
        """Raises `Failure` naming the flag of the first field without which the command is none."""
        for flag in self.rows:
            if flag.name in self.required and value_at(document, flag.path) in {None, ""}:
                raise usage(
                    f"--{flag.name} is missing.",
                    f"{flag.help} Give the flag, or the field `{'.'.join(flag.path)}` in -f FILE.",
                )

    def command_line(self, given: Values) -> str:
        """The flags as they would be typed again."""
        words: list[str] = []
        for flag, value in self._given(given):
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{flag.name}"] if flag.kind is bool else [f"--{flag.name}", shlex.quote(str(one))]
        return " ".join(words)

    def _given(self, given: Values) -> Iterator[tuple[Flag, Any]]:
        return ((flag, given[flag.name]) for flag in self.rows if flag.name in given)


def _is_given(value: object) -> bool:
    """A 0 is: of a tier it is the first one, and elsewhere the field's own check refuses it."""
    return value is not None and value is not False and value != []


def value_at(document: Document, path: tuple[str, ...]) -> object:
    """The field's value, None when it or a part of its path is not there; what is no plain value counts as there."""
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return "..." if isinstance(value, dict | list) else value


def _parameter(flag: Flag) -> inspect.Parameter:
    is_switch = flag.kind is bool
    kind = flag.kind if is_switch else flag.kind | None
    return inspect.Parameter(
        flag.parameter,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if is_switch else None,
        annotation=Annotated[kind, option(f"--{flag.name}", flag.help, flag.metavar, flag.panel)],
    )

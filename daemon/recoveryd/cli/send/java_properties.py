"""Java properties files, as Kafka's own tools take them by `--command-config`, with the rules of
`java.util.Properties.load`: `=`, `:` or blanks between name and value, lines that go on behind a backslash, and
escapes.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from recoveryd.cli.failure import usage

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", flags=re.DOTALL)
_NAMED: Final[Mapping[str, str]] = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
# A separator counts where no backslash stands before it.
_PAIR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*([=:]?)[ \t\f]*(.*)", flags=re.DOTALL)
_BLANKS: Final = " \t\f"


class Property(NamedTuple):
    """`line`: where it begins, from 1 on."""

    value: str
    line: int


def read_properties(file: Path) -> dict[str, Property]:
    """By name. Raises `Failure` for what is no such file, or has a name without a value; it names the line and shows
    nothing of it, since a line that lost its backslash may be a password.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"{file} cannot be read: {error}.", "Give the path of a client.properties file.") from None
    found: dict[str, Property] = {}
    for number, line in _lines(text):
        pair = _PAIR.fullmatch(line)
        name, sign, value = pair.groups() if pair is not None else ("", "", "")
        if not name or not (sign or value):
            what = "a name without a value" if name else "a value without a name"
            raise usage(f"{file}:{number} has {what}.", "Each line is NAME=VALUE, as Kafka's tools read it.")
        if "\\u" in re.sub(r"\\\\|\\u[0-9a-fA-F]{4}", "", line):
            raise usage(f"{file}:{number} has a \\u without four digits.", "Write a backslash as two of them.")
        found[_plain(name)] = Property(_plain(value), number)
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Joined where they go on, with the number of the first; without comments and empty ones."""
    going_on, begun = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANKS)
        if not going_on and (not line or line[0] in "#!"):
            continue
        begun = begun if going_on else number
        ends = len(line) - len(line.rstrip("\\"))
        if ends % 2:
            going_on += line[:-1]
            continue
        yield begun, going_on + line
        going_on = ""
    if going_on:
        yield begun, going_on


def _plain(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        told = found[1]
        return chr(int(told[1:], 16)) if len(told) == 5 else _NAMED.get(told, told)

    return _ESCAPE.sub(meant, text)

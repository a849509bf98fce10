"""Client properties whose values are stored elsewhere: `{file: PATH}`, `{env: NAME}`, or `${file:PATH}` and
`${env:NAME}` inside a text.

They are read at the start, and those in files again when a file changes (`renewing`). A value that was read this way,
or that belongs to a property with secret content, is never shown.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recoveryd.settings.kafka_properties import SECRET_PROPERTIES

MASK: Final = "***"
MAX_SECRET_BYTES: Final = 1024 * 1024
_NEEDED_BY_ALL: Final = frozenset({
    "PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "HOSTNAME", "JAVA_HOME",
    "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KRB5_CONFIG",
})  # fmt: skip
_REFERENCE: Final = re.compile(r"\$\{(file|env):([^}]+)\}")


class SecretProblem(ValueError):  # noqa: N818  (named for what happened)
    """A secret cannot be read; the message names the file or variable, never a value."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A property's text, and what of it may be shown."""

    text: str
    shown: str


def resolve(name: str, value: Any, environment: Mapping[str, str]) -> Resolved:
    """The value of the client property `name` as text. Raises `SecretProblem`."""
    if isinstance(value, dict):
        if len(value) != 1 or not set(value) <= {"file", "env"}:
            raise SecretProblem("must be a text, {file: PATH} or {env: NAME}")
        ((kind, place),) = value.items()
        return Resolved(_read(kind, str(place), environment), f"{MASK} ({kind} {place})")
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise SecretProblem("must be a text, {file: PATH} or {env: NAME}")
    text = str(value)
    resolved = _REFERENCE.sub(lambda match: _read(match[1], match[2], environment), text)
    is_secret = name in SECRET_PROPERTIES
    return Resolved(resolved, MASK if is_secret and resolved == text else MASK + _places(text) if is_secret else text)


def shown_property(name: str, value: Any) -> str:
    """What of a property may be shown without reading what it refers to."""
    if isinstance(value, dict):
        return " ".join(f"{kind} {place}" for kind, place in value.items())
    text = str(value)
    return (MASK + _places(text) if _REFERENCE.search(text) else MASK) if name in SECRET_PROPERTIES else text


def files_in(value: Any) -> tuple[str, ...]:
    """The files that a property refers to."""
    if isinstance(value, dict):
        return tuple(str(place) for kind, place in value.items() if kind == "file")
    return tuple(place for kind, place in _REFERENCE.findall(str(value)) if kind == "file")


def variables_in(value: Any) -> frozenset[str]:
    """The variables that a config refers to, wherever in it: what they hold is for the daemon alone. What every program
    needs to run is no secret.
    """
    return frozenset(_variables(value)) - _NEEDED_BY_ALL


def _variables(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if set(value) == {"env"} and isinstance(value["env"], str):
            yield value["env"]
        for inner in value.values():
            yield from _variables(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _variables(inner)
    elif isinstance(value, str):
        yield from (place for kind, place in _REFERENCE.findall(value) if kind == "env")


def _places(text: str) -> str:
    return f" ({', '.join(f'{kind} {place}' for kind, place in _REFERENCE.findall(text))})"


def _read(kind: str, place: str, environment: Mapping[str, str]) -> str:
    if kind == "env":
        if place not in environment:
            raise SecretProblem(f"the environment variable {place} is not set")
        return environment[place]
    return read_secret_file(place)


def read_secret_file(place: str) -> str:
    """The text of a file without its last line end. Raises `SecretProblem`."""
    try:
        raw = Path(place).read_bytes()
    except OSError as error:
        raise SecretProblem(f"the file {place} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_SECRET_BYTES:
        raise SecretProblem(f"the file {place} is larger than a secret should be")
    try:
        text = raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise SecretProblem(f"the file {place} is not text") from None
    if not text:
        raise SecretProblem(f"the file {place} is empty")
    return text

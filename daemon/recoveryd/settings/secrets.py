"""Client properties and secrets whose values are stored elsewhere: `{file: PATH}`, `{env: NAME}`, or `${file:PATH}` and
`${env:NAME}` inside a text.

They are read at the start, and those in files again when a file changes (`renewing`). A value that was read this way,
or that belongs to a property with secret content, is never shown. What a path means, the caller says: it depends on the
file that names it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from recoveryd.settings import jaas
from recoveryd.settings.jaas import PropertyProblem
from recoveryd.settings.kafka_properties import LOCATIONS, SECRET_PROPERTIES
from recoveryd.settings.oauth_properties import ENDPOINT, shown_endpoint
from recoveryd.settings.sources import Key, Origin, located, problem_at

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

    text: str = field(repr=False)
    shown: str


def resolve(name: str, value: Any, environment: Mapping[str, str], locate: Callable[[str], Path]) -> Resolved:
    """The value of the client property or secret `name` as text; `locate` gives the file that it means by a path.
    Raises `SecretProblem`.
    """
    if isinstance(value, dict):
        if len(value) != 1 or not set(value) <= {"file", "env"}:
            raise SecretProblem("must be a text, {file: PATH} or {env: NAME}")
        ((kind, place),) = value.items()
        found, shown = _read(kind, str(place), environment, locate), f"{MASK} ({kind} {place})"
    else:
        if isinstance(value, bool):
            value = "true" if value else "false"
        if not isinstance(value, str | int | float):
            raise SecretProblem("must be a text, {file: PATH} or {env: NAME}")
        found, shown = _replaced(name, str(value), environment, locate), shown_property(name, value)
    return Resolved(str(locate(found)) if name in LOCATIONS else found, shown)


def read_secret(key: Key, value: Any, origins: Mapping[Key, Origin], environment: Mapping[str, str]) -> str:
    """The secret that stands at `key` of the config, as text. Raises `ConfigProblem` with the line."""
    try:
        return resolve(".".join(key), value, environment, located(key, origins)).text
    except SecretProblem as problem:
        raise problem_at(key, origins, f"is not usable: {problem}") from None


def _replaced(name: str, text: str, environment: Mapping[str, str], locate: Callable[[str], Path]) -> str:
    """The text with what it refers to."""

    def read(match: re.Match[str]) -> str:
        found = _read(match[1], match[2], environment, locate)
        return jaas.fitted(found, text[: match.start()]) if name == jaas.KEY else found

    try:
        return _REFERENCE.sub(read, text)
    except PropertyProblem as problem:
        raise SecretProblem(f"it {problem.message}") from None


def refers(text: str) -> bool:
    """Whether a text names a file or a variable in which a part of it stands."""
    return _REFERENCE.search(text) is not None


def with_whole_paths(name: str, text: str) -> str:
    """The client property `name` with the paths in it as they are meant in the working directory, for who uses it from
    elsewhere.
    """
    if refers(text):
        return _REFERENCE.sub(lambda match: match[0] if match[1] == "env" else f"${{file:{_whole(match[2])}}}", text)
    return _whole(text) if name in LOCATIONS else text


def _whole(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def shown_secret(text: str) -> str:
    """What of a secret may be shown: where it stands."""
    return MASK + _places(text) if refers(text) else MASK


def shown_property(name: str, value: Any) -> str:
    """What of a property may be shown without reading what it refers to."""
    if isinstance(value, dict):
        return " ".join(f"{kind} {place}" for kind, place in value.items())
    if name in SECRET_PROPERTIES:
        return shown_secret(str(value))
    return shown_endpoint(str(value)) if name == ENDPOINT else str(value)


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


def _read(kind: str, place: str, environment: Mapping[str, str], locate: Callable[[str], Path]) -> str:
    if kind == "env":
        if place not in environment:
            raise SecretProblem(f"the environment variable {place} is not set")
        return environment[place]
    return _read_file(locate(place))


def _read_file(place: Path) -> str:
    """The text of a file without its last line end."""
    try:
        raw = place.read_bytes()
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

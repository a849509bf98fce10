"""Where config values come from: one YAML file, the environment, the command line; later ones win, key by key.

The result is a plain tree of values with the origin of each, so that every error and `config show` can say where a
value stands. The YAML is strict: one mapping, no key twice. The model checks keys and values.
"""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.spelling import did_you_mean

PREFIX: Final = "RECOVERYD_"
BOOTSTRAP_VARIABLE: Final = "RECOVERYD_BOOTSTRAP_SERVERS"
CONFIG_VARIABLE: Final = "RECOVERYD_CONFIG"
BOOTSTRAP_KEY: Final = ("clusters", "main", "bootstrap.servers")
MAX_FILE_BYTES: Final = 1024 * 1024
_MAX_LEVELS: Final = 16
_NO_SUCH_VALUE: Final = (ValueError, LookupError, AttributeError)  # what the library raises then; each repeats the text
_NO_NAME: Final = "holds a character that no name of a file can have"

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value stands: a file with line, a variable, or a flag."""

    name: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


@dataclass(slots=True)
class Tree:
    """Values by section, and the origin of each key that some source gave."""

    values: dict[str, Any]
    origins: dict[Key, Origin]

    def put(self, key: Key, value: Any, origin: Origin) -> None:
        """Set one value and make its sections; it replaces what stood there, with all below it. Raises `ConfigProblem`
        if one of the sections is something else already.
        """
        section = self.values
        for depth, part in enumerate(key[:-1]):
            if section.get(part) is None:
                section[part] = {}
            section = section[part]
            if not isinstance(section, dict):
                place = ".".join(key[: depth + 1])
                raise ConfigProblem(f"{place} is no section", key=place, origin=origin.name, line=origin.line)
        if key[-1] in section:
            for gone in [known for known in self.origins if known[: len(key)] == key]:
                del self.origins[gone]
        section[key[-1]] = value
        self.origins[key] = origin

    def problem(self, key: Key, message: str, hint: str = "", code: Code = Code.CONFIG_INVALID) -> ConfigProblem:
        """A problem with the value at `key`; `message` follows the key in the text."""
        return problem_at(key, self.origins, message, hint, code)


def problem_at(
    key: Key, origins: Mapping[Key, Origin], message: str, hint: str = "", code: Code = Code.CONFIG_INVALID
) -> ConfigProblem:
    """As `Tree.problem`."""
    origin, name = origin_of(key, origins), ".".join(key)
    return ConfigProblem(f"{name} {message}.", hint, code=code, key=name, origin=origin.name, line=origin.line)


def origin_of(key: Key, origins: Mapping[Key, Origin]) -> Origin:
    """Where the value at `key` comes from, or the nearest section around it that some source gave."""
    for length in range(len(key), 0, -1):
        if key[:length] in origins:
            return origins[key[:length]]
    return Origin("")


def read_file(path: Path) -> Tree:
    """The tree of a YAML file. Raises `ConfigProblem` with the line."""
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_FILE_BYTES:
            raise ConfigProblem("The config file is larger than 1 MiB.", code=Code.CONFIG_UNREADABLE, origin=str(path))
        return read_yaml(raw.decode("utf-8-sig"), str(path))
    except OSError as error:
        raise ConfigProblem(f"{error.strerror}.", code=Code.CONFIG_UNREADABLE, origin=str(path)) from None
    except UnicodeDecodeError as error:
        raise ConfigProblem(
            f"It is not UTF-8: {error.reason}.", code=Code.CONFIG_UNREADABLE, origin=str(path)
        ) from None


def read_yaml(text: str, name: str) -> Tree:
    """The tree of a YAML text; `name` is the name of its file in errors."""
    tree = Tree({}, {})
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is not None and not isinstance(node, yaml.MappingNode):
                raise ConfigProblem(
                    "The config must be one mapping.", code=Code.CONFIG_UNREADABLE, origin=name, line=_line(node)
                )
            if node is not None:
                tree.values = _Builder(loader, name, tree.origins).build(node, ())
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        raise ConfigProblem(
            f"It is not YAML: {yaml_problem(error)}.", code=Code.CONFIG_UNREADABLE, origin=name, line=line
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigProblem(
            f"It is not YAML: {error.reason}.", code=Code.CONFIG_UNREADABLE, origin=name, line=line
        ) from None
    except RecursionError:
        raise ConfigProblem("It is nested too deeply.", code=Code.CONFIG_UNREADABLE, origin=name) from None
    return tree


def yaml_problem(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, without the text that stands there: it may be a password. Scanner and parser only tell of
    marks.
    """
    problem = error.problem or ""
    if isinstance(error, yaml.constructor.ConstructorError) or "undefined alias" in problem or "tag handle" in problem:
        return "a text that begins with *, &, ! or = needs quotes"
    return problem


class _Builder:
    """YAML nodes to plain values, noting the line of each key."""

    def __init__(self, loader: yaml.SafeLoader, name: str, origins: dict[Key, Origin]) -> None:
        self._loader = loader
        self._name = name
        self._origins = origins

    def build(self, node: yaml.Node, key: Key) -> Any:
        if len(key) > _MAX_LEVELS:
            raise self._problem(f"It is nested deeper than {_MAX_LEVELS} levels.", node, key)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*key, str(i))) for i, item in enumerate(node.value)]
        try:
            return self._loader.construct_object(node, deep=True)
        except _NO_SUCH_VALUE:
            raise self._problem(
                f"{'.'.join(key)} is not what YAML takes it for; a text needs quotes.", node, key
            ) from None

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._problem("A key must be a plain word.", key_node, key)
            name = str(key_node.value)
            inner = (*key, name)
            if name in values:
                earlier = self._origins[inner].line
                raise self._problem(f"{'.'.join(inner)} is given twice, first in line {earlier}.", key_node, inner)
            self._origins[inner] = Origin(self._name, _line(key_node))
            values[name] = self.build(value_node, inner)
        return values

    def _problem(self, message: str, node: yaml.Node, key: Key) -> ConfigProblem:
        return ConfigProblem(message, key=".".join(key), origin=self._name, line=_line(node))


def put_environment(tree: Tree, environment: Mapping[str, str], sections: Mapping[str, Collection[str]]) -> None:
    """Put the values of `RECOVERYD_` variables into the tree. `sections`: the keys of the top level, each with its own
    keys.

    A variable names a key with `__` between its parts. Parts are lower case; under `clusters.NAME`, underscores stand
    for the dots of Kafka's names. Other `RECOVERYD_` variables (orchestrators set some) are ignored, unless they look
    like a key written with one underscore.
    """
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in {BOOTSTRAP_VARIABLE, CONFIG_VARIABLE}:
            continue
        first, *rest = variable.removeprefix(PREFIX).lower().split("__")
        if first not in sections:
            _refuse_lookalike(variable, first, rest, sections)
            continue
        key = (first, *rest)
        if first == "clusters" and len(key) == 3:
            key = (*key[:2], key[2].replace("_", "."))
        tree.put(key, _environment_value(environment[variable], variable), Origin(variable))
    if environment.get(BOOTSTRAP_VARIABLE, "").strip():
        tree.put(BOOTSTRAP_KEY, environment[BOOTSTRAP_VARIABLE].strip(), Origin(BOOTSTRAP_VARIABLE))


def _refuse_lookalike(variable: str, first: str, rest: list[str], sections: Mapping[str, Collection[str]]) -> None:
    if rest:
        hint = did_you_mean(first, sections, f"Sections are {', '.join(sections)}.")
        raise ConfigProblem(
            f"There is no section {first}.", hint, code=Code.CONFIG_UNKNOWN_KEY, key=first, origin=variable
        )
    for section, names in sections.items():
        name = first.removeprefix(f"{section}_")
        if name != first and name in names:
            hint = f"Write {PREFIX}{section.upper()}__{name.upper()}, with two underscores."
            raise ConfigProblem(
                f"There is no key {first}.", hint, code=Code.CONFIG_UNKNOWN_KEY, key=first, origin=variable
            )


def _environment_value(text: str, variable: str) -> Any:
    """The value of a variable: text as it is (the model converts it), except lists and mappings in YAML's flow style,
    and null.
    """
    stripped = text.strip()
    if stripped in {"null", "~"}:
        return None
    if not stripped.startswith(("[", "{")):
        return stripped
    try:
        return yaml.safe_load(stripped)
    except (yaml.YAMLError, RecursionError, *_NO_SUCH_VALUE):
        raise ConfigProblem("Its list or mapping is not YAML.", code=Code.CONFIG_UNREADABLE, origin=variable) from None


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def path_of(name: str, key: Key, origin: Origin) -> Path:
    """The path that is written at `key`. Raises `ConfigProblem` for one that Python takes for none."""
    try:
        path, raw = Path(name).expanduser(), os.fsencode(name)
    except RuntimeError:
        raise _no_path(name, key, origin, "begins with a home folder that is not known here") from None
    except ValueError:
        raise _no_path(name, key, origin, _NO_NAME) from None
    if b"\0" in raw:
        raise _no_path(name, key, origin, _NO_NAME)
    return path


def _no_path(name: str, key: Key, origin: Origin, why: str) -> ConfigProblem:
    dotted = ".".join(key)
    message = f"{dotted} names a file or folder that cannot be: {name!r} {why}."
    return ConfigProblem(message, key=dotted, origin=origin.name, line=origin.line)


def beside(name: str, key: Key, origin: Origin) -> Path:
    """A path as the file means that names it at `key`: relative to that file; one from a variable or flag, to the
    working directory. It is absolute, because drivers and applications run elsewhere. Raises `ConfigProblem`.
    """
    folder = Path(origin.name).parent if origin.line else Path()
    return (folder / path_of(name, key, origin)).absolute()


def located(key: Key, origins: Mapping[Key, Origin]) -> Callable[[str], Path]:
    """What the value at `key` means by a path. That of `{file: PATH}` may come from elsewhere than its section. What it
    gives raises `ConfigProblem`.
    """
    return partial(beside, key=key, origin=origin_of((*key, "file"), origins))

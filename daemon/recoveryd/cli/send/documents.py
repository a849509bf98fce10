"""Reading the YAML or JSON document that `-f` takes: the data of a control record, as plain JSON values.

One that is JSON means what it means as a record. YAML is read strictly, since nobody looks at what its readers make of
it: no key twice, a number is decimal or refused (`010` is octal in YAML 1.1, and `1:30` is 90), a time stays the text
that the contract wants, a key is the text that stands there (`on` is no boolean), and its size is bounded. Errors name
line and key and never a value: the files of contexts are read here too, and hold passwords.
"""

import math
import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from recoveryd.cli.failure import Failure, usage

_TAG: Final = "tag:yaml.org,2002:"
_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99}|[1-9][0-9]{0,2}(?:_[0-9]{3}){1,33})")
_BROKEN: Final = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]{0,99})\.[0-9]{0,99}|\.[0-9]{1,99})(?:[eE][-+]?[0-9]{1,3})?")
_VALUES_MOST: Final = 100_000
_QUOTES: Final = "Write numbers like 10 or 1.5; a text that looks like a number, a time or a sign needs quotes."


class _TextTimesLoader(yaml.SafeLoader):
    """YAML without its timestamps: `2026-11-21T06:00:00Z` stays the text that the contract wants."""


_TextTimesLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_file(file: Path, holds: str) -> dict[str, Any]:
    """The one mapping in a file, `-` = stdin. Raises `Failure` naming the line when it is none; `holds` is the sentence
    that says what it should hold.
    """
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"{file} cannot be read: {error}.", "Give the path of a YAML or JSON file.") from None
    document = _as_json(text)
    if document is None:
        document = _as_yaml(text, str(file))
    if not isinstance(document, dict):
        raise usage(f"{file} is no mapping.", holds)
    return document


def _as_json(text: str) -> Any:
    """None where it is not JSON as a record is; what is wrong with it is told better by the reader of YAML, by line."""
    if not text.lstrip().startswith("{"):
        return None
    from recoveryd.wire.bounded_json import JsonProblem, parse  # noqa: PLC0415

    try:
        return parse(text.encode())
    except (JsonProblem, UnicodeEncodeError):
        return None


def _as_yaml(text: str, origin: str) -> Any:
    try:
        loader = _TextTimesLoader(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _DocumentBuilder(loader, origin).build(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{origin}:{mark.line + 1}" if mark is not None else origin
        raise usage(f"{place} is no YAML: {_problem(error)}.", "Correct the line.") from None
    except RecursionError:
        raise usage(f"{origin} is nested too deeply.", "Write it flatter.") from None


def _problem(error: yaml.YAMLError) -> str:
    from recoveryd.settings.sources import yaml_problem  # noqa: PLC0415  (the package loads pydantic)

    return yaml_problem(error) if isinstance(error, yaml.MarkedYAMLError) else str(getattr(error, "reason", error))


class _DocumentBuilder:
    """From the nodes of one document to its values."""

    def __init__(self, loader: yaml.SafeLoader, origin: str) -> None:
        self._loader = loader
        self._origin = origin
        self._left = _VALUES_MOST

    def build(self, node: yaml.Node) -> Any:
        self._check_keys(node, set())
        return self._value(node, "it")

    def _check_keys(self, node: yaml.Node, seen: set[int]) -> None:
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            return
        seen.add(id(node))
        lines: dict[str, int] = {}
        for item in node.value:
            key, value = item if isinstance(node, yaml.MappingNode) else (None, item)
            if key is not None:
                if not isinstance(key, yaml.ScalarNode):
                    raise self._refused(key, "a key is no plain word", "Write keys as words or numbers.")
                if key.value in lines:
                    what = f"`{key.value}` is given twice, first in line {lines[key.value]}"
                    raise self._refused(key, what, "Give it once.")
                lines[key.value] = _line(key)
            self._check_keys(value, seen)

    def _value(self, node: yaml.Node, name: str) -> Any:
        self._left -= 1  # what stands there once can be meant many times
        if self._left < 0:
            raise self._refused(node, f"it holds more than {_VALUES_MOST:,} values", "Write less.")
        tag = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and tag == "map":
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode) and tag == "seq":
            return [self._value(item, name) for item in node.value]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, tag, name)
        raise self._refused(node, f"{name} is of a type that a record does not have")

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        """What is merged into it by `<<` is counted, unlike with the library, and its own keys win over that."""
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in node.value:
            built = self._value(value, f"`{key.value}`")
            if key.tag != f"{_TAG}merge":
                own[str(key.value)] = built
                continue
            for part in built if isinstance(built, list) else [built]:
                if not isinstance(part, dict):
                    raise self._refused(key, "what `<<` merges is no mapping", "Merge mappings, or quote the key.")
                merged = part | merged
        return merged | own

    def _scalar(self, node: yaml.ScalarNode, tag: str, name: str) -> Any:
        text = str(node.value)
        match tag:
            case "str":
                return text
            case "null":
                return None
            case "bool" if text.lower() in self._loader.bool_values:
                return self._loader.bool_values[text.lower()]
            case "int" | "float":
                return self._number(node, text, name)
            case _:
                raise self._refused(node, f"{name} is of a type that a record does not have")

    def _number(self, node: yaml.Node, text: str, name: str) -> int | float:
        if _WHOLE.fullmatch(text):
            return int(text)
        if _BROKEN.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        raise self._refused(node, f"{name} is no plain decimal number, and may mean another one than it seems to")

    def _refused(self, node: yaml.Node, what: str, hint: str = _QUOTES) -> Failure:
        return usage(f"{self._origin}:{_line(node)}: {what}.", hint)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1

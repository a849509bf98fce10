"""Reading the YAML or JSON document that `-f` takes: the data of a control record, as plain JSON values."""

import sys
from pathlib import Path
from typing import Any

import yaml

from recoveryd.cli.failure import usage

_TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"


class _TextTimesLoader(yaml.SafeLoader):
    """YAML without its timestamps: `2026-11-21T06:00:00Z` stays the text that the contract wants."""


_TextTimesLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP_TAG]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_file(file: Path, holds: str) -> dict[str, Any]:
    """The one mapping in a file, `-` = stdin. Times stay text: YAML would make them objects without their zone. Raises
    `Failure` naming the line when it is none; `holds` is the sentence that says what it should hold.
    """
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"{file} cannot be read: {error}.", "Give the path of a YAML or JSON file.") from None
    return _mapping(text, str(file), holds)


def _mapping(text: str, origin: str, holds: str) -> dict[str, Any]:
    try:
        document = yaml.load(text, Loader=_TextTimesLoader)  # noqa: S506  (a SafeLoader with less)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{origin}:{mark.line + 1}" if mark is not None else origin
        raise usage(f"{place} is no YAML: {getattr(error, 'problem', error)}.", "Correct the line.") from None
    if not isinstance(document, dict):
        raise usage(f"{origin} is no mapping.", holds)
    return {str(name): _with_text_keys(value) for name, value in document.items()}


def _with_text_keys(value: Any) -> Any:
    """JSON has text keys only; YAML reads `offsets: {0: 5}` with a number."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _with_text_keys(inner) for key, inner in value.items()}
    return [_with_text_keys(inner) for inner in value] if isinstance(value, list) else value

"""A part of a JSON document by its path, for `-o jsonpath=PATH`: names, numbers from either end and `[*]`, in the
braces that kubectl wants or without. Filters and functions are the business of `jq`.

    .plan.hash    {.progress.partitions[*].position}    [0].recovery    .labels['a.b']
"""

import re
from typing import Any, Final

from recoveryd.cli.failure import Failure, usage

_STEP: Final = re.compile(r"""\.?(?:([A-Za-z_][\w-]*)|\[(?:(\*)|(-?[0-9]{1,9})|'([^']*)'|"([^"]*)")\])|(\.\*)""")


def select(document: Any, path: str) -> list[Any]:
    """Every value at `path`, in the order of the document; none where the path leads nowhere. Raises `Failure`."""
    found = [document]
    for step in _steps(path):
        found = [inner for value in found for inner in _take(value, step)]
    return found


def _steps(path: str) -> list[str | int | None]:
    """None stands for `[*]`."""
    text = path.strip()
    text = (text[1:-1] if text.startswith("{") and text.endswith("}") else text).removeprefix("$")
    if text == ".":
        return []
    steps: list[str | int | None] = []
    place = 0
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None:
            raise _no_path(path, text[place:])
        name, every, number, quoted, double, dotted = match.groups()
        if name is not None and place and text[place] != ".":
            raise _no_path(path, text[place:])
        steps.append(None if every or dotted else int(number) if number else name or quoted or double or "")
        place = match.end()
    return steps


def _take(value: Any, step: str | int | None) -> list[Any]:
    if step is None:
        return list(value.values() if isinstance(value, dict) else value) if isinstance(value, dict | list) else []
    if isinstance(step, int):
        return [value[step]] if isinstance(value, list) and -len(value) <= step < len(value) else []
    return [value[step]] if isinstance(value, dict) and step in value else []


def _no_path(path: str, rest: str) -> Failure:
    return usage(f"-o jsonpath={path} cannot be read from `{rest}` on.", "Write it like .plan.hash or [*].recovery.")

"""What is wrong with a record, for its sender: a code, the field by its full path, and the nearest thing that would be
right.

pydantic finds most problems; `explain` turns its error into one `Problem`. Checks of our own raise `wrong(...)` in a
validator, whose code `explain` keeps.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from recoveryd.kernel.catalogue import Code
from recoveryd.wire.spelling import nearest

_SHOWN_VALUE_CHARS: Final = 80
_SHOWN_NAMES: Final = 12
_OTHERS_SHOWN: Final = 3
_CODE_PREFIX: Final = "RCV-"
_PLAIN_NAME: Final = re.compile(r"[\w.-]{1,80}", flags=re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something is refused. `message` names the field, `hint` says what to do."""

    code: Code
    message: str
    hint: str


def make_problem(code: Code, message: str, hint: str = "") -> Problem:
    """A problem whose hint is the catalogue's next step unless a better one is known."""
    return Problem(code, message, hint or code.next_step)


def wrong(message: str, hint: str = "", *, code: Code = Code.INVALID_VALUE) -> PydanticCustomError:
    """An error for validators to raise. `message` follows the field's path, for instance `has no time zone`."""
    # The text is kept in the context, because pydantic would take braces in a message for placeholders.
    return PydanticCustomError(code.value, "{text}", {"text": message, "hint": hint})


def one_of(value: object, allowed: Sequence[str]) -> tuple[str, str]:
    """Message and hint for a value that is none of the allowed words."""
    close = nearest(value, allowed) if isinstance(value, str) else None
    message = f"is {shown(value)}, which is not one of {', '.join(allowed)}"
    return message, f'Write "{close}".' if close else ""


def shown(value: object) -> str:
    """A value as an error may show it: JSON, short, on one line, without control characters for terminals."""
    try:
        text = json.dumps(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value)
    except (TypeError, ValueError):
        text = json.dumps(repr(value))
    return text if len(text) <= _SHOWN_VALUE_CHARS else text[: _SHOWN_VALUE_CHARS - 3] + "..."


def plain(name: str) -> str:
    """A name as an error may show it: bare when it is an ordinary word, else quoted."""
    return name if _PLAIN_NAME.fullmatch(name) else shown(name)


def explain(error: ValidationError, model: type[BaseModel], root: str, what: str) -> Problem:
    """The one problem to answer with: the first unknown field if there is one (a misspelt name also looks like a
    missing one), else the first found.

    `root` is the name of the validated object (`data`), `what` the kind of record (`replay`).
    """
    details = error.errors(include_url=False)
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    code, message, hint = _describe(first, model, root, what)
    others = [_path(root, detail["loc"]) for detail in details if detail is not first][:_OTHERS_SHOWN]
    if others:
        message += f" Also wrong: {', '.join(dict.fromkeys(others))}."
    return make_problem(code, message, hint)


def _describe(detail: ErrorDetails, model: type[BaseModel], root: str, what: str) -> tuple[Code, str, str]:
    path = _path(root, detail["loc"])
    kind = detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    if kind.startswith(_CODE_PREFIX):
        return Code(kind), f"{path} {context['text']}.", context["hint"]
    if kind == "extra_forbidden":
        return Code.UNKNOWN_FIELD, f"{path} is not a field of {what}.", _unknown_field_hint(detail["loc"], model, root)
    if kind == "missing":
        return Code.MISSING_FIELD, f"{path} is required.", ""
    if kind == "literal_error":
        allowed = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
        message, hint = one_of(detail["input"], allowed)
        return Code.INVALID_VALUE, f"{path} {message}.", hint
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        return Code.INVALID_VALUE, f"{path} must be an object, not {shown(detail['input'])}.", ""
    reason = detail["msg"].replace("Input should", "should")
    return Code.INVALID_VALUE, f"{path}: {reason}, not {shown(detail['input'])}.", ""


def _unknown_field_hint(loc: tuple[int | str, ...], model: type[BaseModel], root: str) -> str:
    """Where the name belongs if a field elsewhere has it; else the nearest name in its place, else the nearest one
    anywhere, else all that are possible.
    """
    *parents, name = (part for part in loc if isinstance(part, str))
    paths = field_paths(model)
    here = {path[-1]: path for path in paths if path[:-1] == tuple(parents)}
    anywhere = {path[-1]: path for path in reversed(paths)}
    found = anywhere.get(name)
    if found is None:
        close = nearest(name, here)
        found = here[close] if close is not None else anywhere.get(nearest(name, anywhere) or "")
    if found is not None:
        return f"The nearest valid field is {'.'.join((root, *found))}."
    return f"Valid here are: {', '.join(list(here)[:_SHOWN_NAMES])}."


def field_paths(model: type[BaseModel]) -> list[tuple[str, ...]]:
    """Every field of the model and of the models in it, by wire name, outer ones first."""
    paths: list[tuple[str, ...]] = []
    for name, info in model.model_fields.items():
        wire_name = info.alias or name
        paths.append((wire_name,))
        for inner in _models_in(info.annotation):
            paths.extend((wire_name, *path) for path in field_paths(inner))
    return sorted(paths, key=len)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _path(root: str, loc: tuple[int | str, ...]) -> str:
    path = root
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{plain(part)}"
    return path

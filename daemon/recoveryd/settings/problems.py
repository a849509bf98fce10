"""What is wrong with a config: the key, its place, and the nearest key that would be right."""

from collections.abc import Collection, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.model import SettingsModel
from recoveryd.settings.sources import Key, Origin, origin_of
from recoveryd.wire.spelling import nearest


def config_problem(
    error: ValidationError, origins: Mapping[Key, Origin], model: type[BaseModel] = SettingsModel, hint: str = ""
) -> ConfigProblem:
    """The problem to report: the first unknown key if there is one, else the first problem found. `hint` is for
    problems that have no better one.
    """
    details = error.errors(include_url=False, include_input=False)
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    key = tuple(str(part) for part in first["loc"])
    origin = origin_of(key, origins)
    code, message, own_hint = _describe(first, key, model)
    if len(details) > 1:
        message += (
            f" There are {len(details) - 1} more problems." if len(details) > 2 else " There is one more problem."
        )
    return ConfigProblem(message, own_hint or hint, code=code, key=".".join(key), origin=origin.name, line=origin.line)


def key_names(model: type[BaseModel]) -> dict[str, Collection[str]]:
    """The keys of the top level, each with the keys of its section (none for plain values and for named things)."""
    names: dict[str, Collection[str]] = {}
    for name, info in model.model_fields.items():
        annotation = info.annotation
        is_section = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        names[name] = tuple(annotation.model_fields) if is_section and annotation is not None else ()
    return names


def _describe(detail: ErrorDetails, key: Key, model: type[BaseModel]) -> tuple[Code, str, str]:
    name = ".".join(key)
    if detail["type"] == "extra_forbidden":
        valid = _names_beside(key, model)
        close = nearest(key[-1], valid)
        hint = f"Did you mean {'.'.join((*key[:-1], close))}?" if close else f"Keys here are {', '.join(valid)}."
        return Code.CONFIG_UNKNOWN_KEY, f"There is no key {name}.", hint
    if detail["type"] == "missing":
        return Code.CONFIG_INVALID, f"{name} is required.", ""
    if detail["type"] in {"model_type", "dict_type"}:
        return Code.CONFIG_INVALID, f"{name} must be a mapping.", ""
    reason = detail["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return Code.CONFIG_INVALID, f"{name}: {reason}." if name else f"{reason}.", ""


def _names_beside(key: Key, model: type[BaseModel]) -> list[str]:
    """The valid keys of the section of `model` that `key` stands in."""
    section: type[BaseModel] | None = model
    for part in key[:-1]:
        if section is None:
            return []
        if part in section.model_fields:
            section = _model_in(section.model_fields[part].annotation)
    return [] if section is None else list(section.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation: itself, the values of a mapping, or the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := _model_in(argument)) is not None), None)

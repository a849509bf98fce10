"""Scenario files of measurements: YAML, checked before anything is started."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from recoveryd.settings.problems import config_problem
from recoveryd.settings.sources import Origin, read_file

_Scenario = TypeVar("_Scenario", bound=BaseModel)
_NONE: Mapping[str, Any] = MappingProxyType({})


def read_scenario(path: Path, model: type[_Scenario], like: Path, changes: Mapping[str, Any] = _NONE) -> _Scenario:
    """The file's scenario; `changes` are values of its top level from the command line, which win. `like` is a file
    that works, for the next step. Raises `ConfigProblem` with code, place and next step.
    """
    tree = read_file(path)
    for name, value in changes.items():
        tree.put((name,), value, Origin(f"--{name.replace('_', '-')}"))
    try:
        return model.model_validate(tree.values)
    except ValidationError as error:
        raise config_problem(error, tree.origins, model, f"Correct it; {like.name} is one that works.") from None

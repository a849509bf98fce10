"""The daemon's config. Whole `Settings` are for what begins a process and puts it together (the command line,
`app.serve`, `bootstrap`, `renewal`, `telling`); all other modules are handed the values they need. Adapters take from
here only how a cluster or an application is reached.

`load` reads one strict YAML file, `RECOVERYD_` variables and flags, in this order of precedence, and gives `Settings`
or raises `ConfigProblem` naming key, file and line. Start at `model`, which has the options.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.jaas import PropertyProblem
from recoveryd.settings.kafka_properties import check_names, read_access
from recoveryd.settings.model import SettingsModel
from recoveryd.settings.problems import config_problem, key_names
from recoveryd.settings.secrets import Resolved, SecretProblem, resolve, variables_in
from recoveryd.settings.sources import (
    BOOTSTRAP_KEY,
    CONFIG_VARIABLE,
    Origin,
    Tree,
    located,
    put_environment,
    read_file,
)
from recoveryd.settings.unit_files import put_unit_files
from recoveryd.settings.view import Settings, leaves

__all__ = ["Settings", "load", "schema"]


def load(
    path: Path | str | None = None,
    bootstrap: str | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, Any]] | None = None,
    base: Tree | None = None,
) -> Settings:
    """The settings in force. `path` None takes RECOVERYD_CONFIG, or no file at all; `base` stands in for a file.

    `flags` are further values from the command line: dotted key to (flag, value), for instance `{"http.listen":
    ("--http", "127.0.0.1:0")}`. Raises `ConfigProblem`; its code is BOOTSTRAP_MISSING when nothing says where the
    brokers are.
    """
    environment = os.environ if env is None else env
    path = path or environment.get(CONFIG_VARIABLE) or None
    tree = base or (Tree({}, {}) if path is None else read_file(Path(path)))
    put_environment(tree, environment, key_names(SettingsModel))
    for key, (flag, value) in (flags or {}).items():
        tree.put(tuple(key.split(".")), value, Origin(flag))
    if bootstrap:
        tree.put(BOOTSTRAP_KEY, bootstrap, Origin("--bootstrap"))
    put_unit_files(tree)
    return _validated(tree, environment)


def schema() -> dict[str, Any]:
    """JSON Schema of the config file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **SettingsModel.model_json_schema()}


def _validated(tree: Tree, environment: Mapping[str, str]) -> Settings:
    resolved = _resolve_clusters(tree, environment)
    texts = {name: {key: value.text for key, value in properties.items()} for name, properties in resolved.items()}
    # A section whose keys are all commented out is empty, not wrong.
    filled = {name: value for name, value in tree.values.items() if value is not None}
    try:
        values = SettingsModel.model_validate(filled | {"clusters": texts})
    except ValidationError as error:
        raise config_problem(error, tree.origins) from None
    for name, properties in texts.items():
        _check(name, tree, read_access, properties)
    shown = {name: {key: value.shown for key, value in properties.items()} for name, properties in resolved.items()}
    given = frozenset(key for key, _ in leaves(tree.values, ()))
    return Settings(
        values,
        dict(tree.origins),
        given,
        shown,
        dict(environment),
        tree.values["clusters"],
        variables_in(tree.values),
    )


def _resolve_clusters(tree: Tree, environment: Mapping[str, str]) -> dict[str, dict[str, Resolved]]:
    clusters = tree.values.get("clusters") or {}
    if not isinstance(clusters, dict) or not isinstance(clusters.get("main"), dict):
        raise ConfigProblem("clusters.main.bootstrap.servers is not set.", code=Code.BOOTSTRAP_MISSING)
    resolved: dict[str, dict[str, Resolved]] = {}
    for name, properties in clusters.items():
        if not isinstance(properties, dict):
            raise tree.problem(("clusters", name), "must be a mapping of Kafka's client properties")
        _check(name, tree, check_names, properties)
        resolved[name] = {}
        for key, value in properties.items():
            whole = ("clusters", name, key)
            try:
                resolved[name][key] = resolve(key, value, environment, located(whole, tree.origins))
            except SecretProblem as problem:
                raise tree.problem(whole, f"is not usable: {problem}") from None
    if "bootstrap.servers" not in resolved["main"]:
        raise ConfigProblem("clusters.main.bootstrap.servers is not set.", code=Code.BOOTSTRAP_MISSING)
    return resolved


def _check(name: str, tree: Tree, check: Callable[[Mapping[str, str]], object], properties: Mapping[str, str]) -> None:
    try:
        check(properties)
    except PropertyProblem as problem:
        code = Code.CONFIG_UNKNOWN_KEY if problem.unknown else Code.CONFIG_INVALID
        raise tree.problem(("clusters", name, problem.key), problem.message, problem.hint, code) from None

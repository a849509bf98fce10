"""What variables of this shell say of where recoveryd is, beside what is typed.

Whoever types a context or a config means that one. A variable that says something else of a place (a key of `clusters`,
or `topics.prefix`) is passed over for a context, which says all of them, and refused for a config, which is made to be
filled by variables. A login goes to no brokers but those that stand beside it. `http.listen` is left to variables: the
image says it, whatever the file there says.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from recoveryd.cli.failure import Failure, usage

_PREFIX: Final = "RECOVERYD_"
_BROKERS: Final = ("clusters", "main", "bootstrap.servers")
_PREFIX_KEY: Final = ("topics", "prefix")
_LOGIN: Final = ("sasl.", "ssl.key")
_NOTHING: Final = object()


def with_brokers(environment: Mapping[str, str]) -> list[str]:
    """The variables that name brokers, or a config: a context that nobody named is not taken beside them."""
    return [name for name, value in sorted(environment.items()) if value.strip() and _says_brokers(_parts(name))]


def of_places(environment: Mapping[str, str]) -> list[str]:
    """All that say something that a context says as well."""
    return [name for name in sorted(environment) if _says_place(_parts(name))]


def without_places(environment: Mapping[str, str]) -> dict[str, str]:
    passed = of_places(environment)
    return {name: value for name, value in environment.items() if name not in passed}


def refuse_contradiction(config: Path, environment: Mapping[str, str], bootstrap: str | None) -> None:
    """For a config that is typed. `bootstrap`: brokers that are typed beside it. Raises `Failure`, or `ConfigProblem`
    where one of both cannot be read.
    """
    from recoveryd.settings.sources import Tree, read_file  # noqa: PLC0415  (the package loads pydantic)

    file, said = read_file(config), _with_variables(Tree({}, {}), environment)
    _refuse_login_of_others(config, file, said, environment, bootstrap)
    for key, origin in said.origins.items():
        for place in _places_at(key):
            theirs, its = _at(said.values, place), _at(file.values, place)
            if its in (_NOTHING, None) or _is_same(place, its, theirs) or (place == _BROKERS and bootstrap):
                continue
            raise _two_places(config, place, its, str(origin), theirs)


def refuse_foreign_login(config: Path | None, environment: Mapping[str, str], bootstrap: str) -> None:
    """For brokers that are typed without a config: what variables say beside other brokers is not sent to these. Raises
    as `refuse_contradiction`.
    """
    from recoveryd.settings.sources import Tree, origin_of, read_file  # noqa: PLC0415

    tree = _with_variables(Tree({}, {}) if config is None else read_file(config), environment)
    known = _at(tree.values, _BROKERS)
    if known in (_NOTHING, None) or _is_same(_BROKERS, known, bootstrap):
        return
    if login := next((place for place in _logins(tree.values) if place[:-1] == _BROKERS[:-1]), None):
        origins = [str(origin_of(place, tree.origins)) for place in (login, _BROKERS)]
        raise usage(
            f"{login[-1]} of {origins[0]} is meant for {known} ({origins[1]}), and --bootstrap says {bootstrap}.",
            "Type --config FILE beside --bootstrap if they belong together; otherwise unset the variables.",
        )


def _refuse_login_of_others(
    config: Path, file: Any, said: Any, environment: Mapping[str, str], bootstrap: str | None
) -> None:
    """A login that the file has not, and that variables say beside brokers which are neither those of the file nor
    those that are typed, is not sent.
    """
    from recoveryd.settings.sources import origin_of  # noqa: PLC0415

    for login in _logins(said.values):
        place = (*login[:-1], _BROKERS[-1])
        meant = {f"--config {config}": _at(file.values, place)}
        meant |= {"--bootstrap": bootstrap} if bootstrap and place == _BROKERS else {}
        meant = {name: brokers for name, brokers in meant.items() if brokers not in (_NOTHING, None)}
        known, origin = _brokers_beside(said, place, environment)
        if known is None or not meant or any(_is_either(known, brokers) for brokers in meant.values()):
            continue
        if _at(file.values, login) in (_NOTHING, None):
            key, variable, asked = ".".join(login), origin_of(login, said.origins), meant.popitem()
            raise usage(
                f"{key} of {variable} is meant for {known} ({origin}), and {asked[0]} says {asked[1]}.",
                "Unset the variables, or type the config that belongs to them.",
            )


def _logins(values: Any) -> Iterator[tuple[str, ...]]:
    """The keys of all logins, by cluster."""
    clusters = _at(values, _BROKERS[:1])
    for name, properties in clusters.items() if isinstance(clusters, Mapping) else ():
        for key, value in properties.items() if isinstance(properties, Mapping) else ():
            if str(key).startswith(_LOGIN) and value is not None:
                yield _BROKERS[0], str(name), str(key)


def _brokers_beside(said: Any, place: tuple[str, ...], environment: Mapping[str, str]) -> tuple[Any, str]:
    """Those that variables name, by the config that one of them names too where no other does; and who says it."""
    from recoveryd.settings.sources import CONFIG_VARIABLE, origin_of, read_file  # noqa: PLC0415

    tree = said
    if _at(said.values, place) in (_NOTHING, None) and environment.get(CONFIG_VARIABLE):
        tree = read_file(Path(environment[CONFIG_VARIABLE]))
    known = _at(tree.values, place)
    return (None, "") if known is _NOTHING else (known, str(origin_of(place, tree.origins)))


def _parts(variable: str) -> tuple[str, ...]:
    """As `settings.sources` takes it apart; nothing for a variable of others."""
    return tuple(variable.removeprefix(_PREFIX).lower().split("__")) if variable.startswith(_PREFIX) else ()


def _says_brokers(parts: tuple[str, ...]) -> bool:
    return parts in {
        ("bootstrap_servers",),
        ("config",),
        ("clusters",),
        ("clusters", "main"),
        ("clusters", "main", "bootstrap_servers"),
        ("clusters", "main", "bootstrap.servers"),
    }


def _says_place(parts: tuple[str, ...]) -> bool:
    return _says_brokers(parts) or parts[:1] == ("clusters",) or parts in {("topics",), ("topics", "prefix")}


def _with_variables(tree: Any, environment: Mapping[str, str]) -> Any:
    from recoveryd.settings.model import SettingsModel  # noqa: PLC0415
    from recoveryd.settings.problems import key_names  # noqa: PLC0415
    from recoveryd.settings.sources import put_environment  # noqa: PLC0415

    put_environment(tree, environment, key_names(SettingsModel))
    return tree


def _places_at(key: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """A variable may say one key, or a whole section in the place of another."""
    if key[0] == "clusters":
        yield key
    elif _PREFIX_KEY[: len(key)] == key:
        yield _PREFIX_KEY


def _at(values: Any, key: tuple[str, ...]) -> Any:
    for part in key:
        if not isinstance(values, Mapping) or part not in values:
            return _NOTHING
        values = values[part]
    return values


def _is_same(place: tuple[str, ...], its: Any, theirs: Any) -> bool:
    """Some of the brokers lead to the same cluster as all of them."""
    if place == _BROKERS:
        return _addresses(theirs) <= _addresses(its)
    return bool(its == theirs) or str(its) == str(theirs)


def _is_either(known: Any, brokers: Any) -> bool:
    return _is_same(_BROKERS, known, brokers) or _is_same(_BROKERS, brokers, known)


def _addresses(brokers: Any) -> set[str]:
    return {address.strip() for address in str(brokers).split(",") if address.strip()}


def _two_places(config: Path, place: tuple[str, ...], its: Any, variable: str, theirs: Any) -> Failure:
    key = ".".join(place)
    is_shown = place in {_BROKERS, _PREFIX_KEY} and theirs is not _NOTHING  # others may be secrets
    said, other = (f"{its}", f"{theirs}") if is_shown else ("one thing", "another")
    mend = "Unset the variable" + (", or say with --bootstrap which brokers are meant." if place == _BROKERS else ".")
    mend += " Where variables are to win, as in a deployment, name the file by RECOVERYD_CONFIG."
    return usage(f"For {key}, --config {config} says {said} and {variable} says {other}.", mend)

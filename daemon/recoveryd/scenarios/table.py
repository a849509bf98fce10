"""Rows of the table, read from the files beside this module. A file that is not well formed is a defect of ours, so it
raises; the tests read all of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Final

# In the order in which they are shown.
FILES: Final = ("applications.yaml", "restarts.yaml", "old_events.yaml", "backups.yaml")
PROOFS: Final = "proofs.json"


class RowStatus(StrEnum):
    """`partly`: what is said works and is tested, and `missing` says what does not."""

    WORKS = "works"
    PARTLY = "partly"
    NOT_YET = "not yet"


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    """`steps`: command lines, or what a person does, which begins with `#`. `missing`: why it is not all there; empty
    where it works. `see`: pages of docs/.
    """

    id: str
    title: str
    use: str
    behaviour: str
    status: RowStatus
    steps: tuple[str, ...] = ()
    limits: str = ""
    missing: str = ""
    see: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """The rows of one file, and what they have in common."""

    title: str
    about: str
    rows: tuple[ScenarioRow, ...]


@cache
def families() -> tuple[Family, ...]:
    return tuple(_family(name) for name in FILES)


@cache
def scenarios() -> Mapping[str, ScenarioRow]:
    """All rows by id, in order."""
    rows = [row for family in families() for row in family.rows]
    found = {row.id: row for row in rows}
    if len(found) != len(rows):
        raise ValueError("two scenarios have one id")
    return found


@cache
def proofs() -> Mapping[str, Sequence[str]]:
    """By the id of a row, the tests that show it: `tests/FILE.py::NAME`."""
    found: Mapping[str, Sequence[str]] = json.loads(_text(PROOFS))
    return found


def _family(name: str) -> Family:
    import yaml  # noqa: PLC0415  (help must not pay for it)

    read = yaml.safe_load(_text(name))
    return Family(_flat(read["title"]), _flat(read["about"]), tuple(_row(row) for row in read["rows"]))


def _row(read: Mapping[str, Any]) -> ScenarioRow:
    """Raises for a field that is not there or not known."""
    told: dict[str, Any] = {name: _flat(text) for name, text in read.items() if isinstance(text, str)}
    listed = {name: tuple(lines) for name, lines in read.items() if isinstance(lines, list)}
    return ScenarioRow(**{**told, **listed, "status": RowStatus(read["status"])})


def _flat(text: str) -> str:
    return " ".join(text.split())


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")

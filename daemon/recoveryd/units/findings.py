"""What a rule finds about a unit: a short name that does not change, how bad it is, one sentence, and what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """`unknown` is what could not be looked at; it never counts as good."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class UnitFinding:
    name: str
    severity: Grade
    message: str
    hint: str = ""
    topics: tuple[str, ...] = ()

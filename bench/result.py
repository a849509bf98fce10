"""The result of a measurement: rows with a median, what it is compared with, and the target. Values only;
`bench.report` shows them.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

PASS, FAIL, NO_TARGET = "pass", "FAIL", ""


@dataclass(frozen=True, slots=True)
class Sample:
    """Measured values of one thing, one per repetition, in `unit`."""

    values: tuple[float, ...]
    unit: str

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    def less(self, each: float) -> "Sample":
        return Sample(tuple(v - each for v in self.values), self.unit)

    def scaled(self, factor: float, unit: str) -> "Sample":
        return Sample(tuple(v * factor for v in self.values), unit)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `at_most` or `at_least` bounds the median, `ratio_at_most` its ratio to the other
    median.
    """

    what: str
    measured: Sample
    versus: str = ""
    compared: Sample | None = None
    at_most: float | None = None
    at_least: float | None = None
    ratio_at_most: float | None = None

    @property
    def ratio(self) -> float | None:
        if self.compared is None or self.compared.median == 0:
            return None
        return self.measured.median / self.compared.median

    @property
    def mark(self) -> str:
        """PASS, FAIL, or NO_TARGET."""
        if self.at_most is not None:
            return PASS if self.measured.median <= self.at_most else FAIL
        if self.at_least is not None:
            return PASS if self.measured.median >= self.at_least else FAIL
        if self.ratio_at_most is not None and self.ratio is not None:
            return PASS if self.ratio <= self.ratio_at_most else FAIL
        return NO_TARGET

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g} {self.measured.unit}"
        if self.at_least is not None:
            return f">= {self.at_least:,g} {self.measured.unit}"
        return "" if self.ratio_at_most is None else f"<= {self.ratio_at_most:g}x"


@dataclass(frozen=True, slots=True)
class Report:
    """All rows of one measurement under a heading; `notes` say what a reader must know to judge them."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Series:
    """Collects samples by name over the repetitions."""

    unit: str
    found: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.found.setdefault(name, []).append(value)

    def sample(self, name: str) -> Sample:
        return Sample(tuple(self.found[name]), self.unit)


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """The same names beginning with another one each turn, so that no variant always follows the same other one."""
    at = turn % len(names)
    return [*names[at:], *names[:at]]

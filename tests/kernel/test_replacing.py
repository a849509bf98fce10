"""A copy with changes is what `dataclasses.replace` makes."""

import dataclasses
from dataclasses import dataclass, field

import pytest

from recoveryd.kernel.replacing import replaced
from recoveryd.recovery.model import Progress, Recovery
from recoveryd.recovery.observed import Observed


@dataclass(frozen=True, slots=True)
class Base:
    name: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class Point(Base):
    marks: tuple[int, ...] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Doubled:
    count: int
    twice: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * self.count)


@dataclass(frozen=True)
class Open:
    name: str
    count: int = 0


def test_it_is_the_same_as_the_standard_library_makes() -> None:
    point = Point("a", 1, (2, 3))
    for changes in ({}, {"count": 5}, {"name": "b", "marks": ()}):
        assert replaced(point, **changes) == dataclasses.replace(point, **changes)
    assert point == Point("a", 1, (2, 3))
    assert type(replaced(point, count=2)) is Point
    assert dataclasses.replace(Observed(), progress_ms=4) == replaced(Observed(), progress_ms=4)


def test_what_it_cannot_copy_it_refuses() -> None:
    with pytest.raises(TypeError, match="Point has no field 'size'"):
        replaced(Point("a"), size=1)
    for value in (Doubled(1), Open("a")):
        with pytest.raises(TypeError, match="no dataclass of slots"):
            replaced(value)


@pytest.mark.parametrize("kind", [Recovery, Progress, Observed])
def test_values_that_every_event_changes_can_be_copied_so(kind: type) -> None:
    assert "__slots__" in vars(kind)
    assert not hasattr(kind, "__post_init__")

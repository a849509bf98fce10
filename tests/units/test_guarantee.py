"""Whether an application is exactly once, by what brokers remember."""

from collections.abc import Mapping

import pytest

from recoveryd.units.guarantee import WrittenBy, own_ids, tell_guarantee
from recoveryd.units.model import Unit, UnitKind

UNIT = Unit("shop", UnitKind.STREAMS, "main", "shop", ("orders",))
THREAD = "shop-0199f0c2-1111-4222-8333-123456789abc-1"
OTHER = "shop-eu-0199f0c2-1111-4222-8333-123456789abc-1"


def by(producer: int, partition: int = 0, at_ms: int = 1, is_transactional: bool = False) -> WrittenBy:
    return WrittenBy("shop-sums-changelog", partition, producer, at_ms, is_transactional)


@pytest.mark.parametrize(
    ("ids", "written", "answer", "why"),
    [
        ({THREAD: 7}, [by(7)], True, "1 internal partitions were written last under transactional ids of shop"),
        ({THREAD: 7}, [by(7), by(8, at_ms=2)], False, "without a transactional id"),  # it was, and is no more
        ({THREAD: 7}, [by(8), by(7, at_ms=2)], True, "written last under"),
        ({THREAD: 7}, [by(7), by(8, partition=1)], False, "shop-sums-changelog 1"),
        ({}, [by(8)], False, "without a transactional id"),
        ({THREAD: 7, "recoveryd-lane": 9}, [by(7), by(9, partition=1)], True, "1 internal"),  # a restore filled it
        ({"recoveryd-lane": 9}, [by(9)], None, "no transactional ids"),
        ({OTHER: 7}, [by(7)], None, "no transactional ids"),
        ({}, [by(7, is_transactional=True)], None, "lacks Describe on TransactionalId shop"),
        ({"recoveryd-lane": 9}, [by(9), by(7, partition=1, is_transactional=True)], None, "lacks Describe"),
        ({THREAD: 7}, [by(7), by(9, partition=1, is_transactional=True)], True, "1 internal"),
        ({}, [by(7, is_transactional=True), by(8, partition=1)], False, "shop-sums-changelog 1"),
        ({THREAD: 7}, [], None, "nobody remembers"),
        ({}, [], None, "nobody remembers"),
    ],
)
def test_who_wrote_last_decides(
    ids: Mapping[str, int], written: list[WrittenBy], answer: bool | None, why: str
) -> None:
    told = tell_guarantee(UNIT, ids, written)
    assert (told.is_exactly_once, why in told.why) == (answer, True), told


@pytest.mark.parametrize("said", [True, False, None])
def test_the_config_counts_only_where_brokers_cannot_tell(said: bool | None) -> None:
    streams = Unit("shop", UnitKind.STREAMS, "main", "shop", ("orders",), is_exactly_once=said)
    group = Unit("shop", UnitKind.GROUP, "main", "shop", ("orders",), is_exactly_once=said)
    assert tell_guarantee(streams, {THREAD: 7}, [by(7)]).is_exactly_once is True
    assert tell_guarantee(streams, {}, ()).is_exactly_once is said
    assert tell_guarantee(group, {THREAD: 7}, [by(7)]).is_exactly_once is said


def test_ids_of_applications_whose_ids_contain_each_other_are_told_apart() -> None:
    ids = (THREAD, OTHER, "shop-0_1", "shop-1", "shop-payments", "shopping-0_1")
    assert own_ids(UNIT, ids) == {THREAD, "shop-0_1"}

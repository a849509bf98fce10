"""How far back inputs reach, and when unread records may go."""

from dataclasses import replace

import pytest

from recoveryd.units.facts import UnitFacts
from recoveryd.units.reach import Keeping, PartitionReach, SeenTimes, look_back
from tests.units.test_lint import HOUR_MS, WORDS, topic

NOW_MS = 1_000 * HOUR_MS


def facts(**configs: str) -> UnitFacts:
    return UnitFacts(NOW_MS, {"words": topic("words", **configs)})


@pytest.mark.parametrize(
    ("configs", "keeping"),
    [
        ({"retention_ms": str(72 * HOUR_MS)}, Keeping.KEPT),
        ({"retention_ms": "-1"}, Keeping.KEPT),
        ({"retention_ms": str(71 * HOUR_MS)}, Keeping.SHORT),
        ({"retention_ms": str(72 * HOUR_MS), "retention_bytes": "1000"}, Keeping.BY_SIZE),
        ({"cleanup_policy": "compact"}, Keeping.COMPACTED),
    ],
)
def test_the_configs_of_an_input_are_judged_by_the_objective(configs: dict[str, str], keeping: Keeping) -> None:
    [found] = look_back(WORDS, facts(**configs), {})
    assert (found.keeping, found.reaches_back_ms, found.lost_in_ms) == (keeping, None, None)


def test_the_first_record_that_is_not_read_goes_when_it_is_as_old_as_retention_allows() -> None:
    seen = SeenTimes({0: NOW_MS - 80 * HOUR_MS, 1: NOW_MS}, {0: NOW_MS - 10 * HOUR_MS, 1: NOW_MS - 50 * HOUR_MS})
    [found] = look_back(WORDS, facts(retention_ms=str(72 * HOUR_MS)), {"words": seen})
    assert found.reaches_back_ms == 80 * HOUR_MS
    assert (found.unread_age_ms, found.lost_in_ms) == (50 * HOUR_MS, 22 * HOUR_MS)
    assert found.why.endswith("the first record that is not read yet may go in 22 h 0 min")


def test_each_partition_has_its_first_offset_and_how_long_that_is_left() -> None:
    seen = SeenTimes({0: NOW_MS - 70 * HOUR_MS, 1: NOW_MS - HOUR_MS}, {1: NOW_MS - HOUR_MS})
    [found] = look_back(WORDS, facts(retention_ms=str(72 * HOUR_MS)), {"words": seen})
    assert found.partitions == (
        PartitionReach(0, 0, 70 * HOUR_MS, 2 * HOUR_MS),
        PartitionReach(1, 0, HOUR_MS, 71 * HOUR_MS, HOUR_MS, 71 * HOUR_MS),
        PartitionReach(2, 0),
    )


def test_what_is_overdue_may_be_gone_already_and_what_is_kept_for_ever_never_goes() -> None:
    seen = SeenTimes({0: 0}, {0: NOW_MS - 73 * HOUR_MS})
    [late] = look_back(WORDS, facts(retention_ms=str(72 * HOUR_MS)), {"words": seen})
    assert late.lost_in_ms == -HOUR_MS
    assert late.why.endswith("may be gone already")
    [never] = look_back(WORDS, facts(retention_ms="-1"), {"words": seen})
    assert never.lost_in_ms is None


def test_an_input_that_is_missing_and_a_unit_without_objective_are_said() -> None:
    [missing] = look_back(WORDS, UnitFacts(NOW_MS), {})
    [free] = look_back(replace(WORDS, retention_objective_ms=None), facts(), {})
    assert (missing.keeping, free.keeping) == (Keeping.MISSING, Keeping.NO_OBJECTIVE)

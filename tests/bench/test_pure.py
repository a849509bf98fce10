"""The measurements that need no broker still measure what they say; their numbers are judged by `make bench` only."""

from collections.abc import Callable

import pytest

from bench import decide, policies, unit_plans
from bench.result import Report

MEASURED = {
    "policies": lambda: policies.measure(1),
    "decide": lambda: decide.measure(1, quick=True),
    "unit_plans": lambda: unit_plans.measure(1, quick=True),
}


@pytest.mark.parametrize("measure", MEASURED.values(), ids=MEASURED.keys())
def test_it_measures(measure: Callable[[], list[Report]]) -> None:
    rows = [row for report in measure() for row in report.rows]
    assert rows
    assert all(row.measured.median > 0 for row in rows)

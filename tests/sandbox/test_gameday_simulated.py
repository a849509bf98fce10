"""What the simulator says of a game day, and when it is asked."""

from dataclasses import replace

import pytest

from recoveryd.simulation.response import Response, packaged_response
from recoveryd_sandbox.gameday.scenario import NAMES, read_gameday
from recoveryd_sandbox.gameday.simulated import is_comparable, judge_simulated, simulated_s
from tests.simulation.response_example import example_response

TODAY = read_gameday("today")
WIDE = TODAY.model_copy(update={"slo": TODAY.slo.model_copy(update={"p99": 10_000, "lag": 100_000})})
COPIED = 1.5e9


def measured() -> Response:
    """As if measured with the work that the broker has in this scenario, whichever the packaged one was
    measured with.
    """
    found = packaged_response() or replace(example_response(), live_records_per_s=TODAY.load.live_records_per_s)
    return replace(found, target_compression=TODAY.target_compression)


def test_it_is_asked_only_where_its_plant_had_the_same_live_traffic() -> None:
    assert [name for name in NAMES if is_comparable(read_gameday(name), measured())] == ["today"]


def test_it_is_not_asked_where_the_broker_has_other_work_to_do() -> None:
    other = "zstd" if TODAY.target_compression != "zstd" else "lz4"
    assert not is_comparable(TODAY.model_copy(update={"target_compression": other}), measured())


def test_a_copy_takes_longer_for_more_records_and_no_longer_where_the_slo_is_wide() -> None:
    usual = simulated_s(TODAY, measured(), COPIED, 1)
    assert simulated_s(TODAY, measured(), 2 * COPIED, 1) > usual
    assert simulated_s(WIDE, measured(), COPIED, 1) < usual


def test_the_second_run_remembers_what_was_safe_in_the_first() -> None:
    """Where the SLO is wide, what is remembered is all that a run can win."""
    assert simulated_s(WIDE, measured(), COPIED, 3) < simulated_s(WIDE, measured(), COPIED, 1)


@pytest.mark.parametrize(("part", "passed"), [(0.81, True), (0.78, False), (1.3, True), (1.36, False)])
def test_what_was_seen_may_differ_by_a_quarter(part: float, passed: bool) -> None:
    told_s = simulated_s(TODAY, measured(), COPIED, 1)
    verdict = judge_simulated(TODAY, measured(), part * told_s, COPIED, 1)
    assert verdict.passed is passed
    assert f"the simulator says {told_s:.0f} s" in verdict.sentence

"""Rows 4, 5 and 6: drivers and Python workers die or freeze, at every step of driver and lane; the target is exact
nevertheless.
"""

from pathlib import Path

import pytest

from recoveryd_jobs.failpoints import POINTS
from tests.chosen import chosen_points
from tests.e2e.case import Case, NewCase
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.processes import await_gone, is_alive
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]

ONE = {"faust": {"instance_id": "one"}}


# Failpoints that one recovery meets one after the other: of lanes at most as many as Spark restarts a task, of drivers
# at most as many as attempts may fail in a row.
GROUPS = (
    ("lane.after_init", "lane.after_consume", "lane.after_flush"),
    ("lane.after_receipts_read", "lane.after_produce", "lane.before_commit"),
    ("lane.after_receipt_produced", "lane.after_commit", "lane.drained"),
    ("driver.started", "driver.lanes_started", "driver.before_verify"),
    ("driver.session_up", "driver.drained", "driver.verified"),
)
WIDE = {
    **dict.fromkeys((*GROUPS[0], *GROUPS[1]), pytest.mark.wide(
        "tests/spark/test_lane_crash.py::test_the_next_attempt_goes_on_where_the_killed_one_stopped"
    )),
    **dict.fromkeys(GROUPS[4], pytest.mark.wide(
        "tests/faults/test_jobs_killed.py::test_rows_4_and_5_a_driver_or_lane_killed_at_any_step_loses_and_doubles_nothing"
    )),
}  # fmt: skip


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty file per failpoint at which something died."""
    return tmp_path_factory.mktemp("once")


@pytest.fixture(scope="module")
def deaths(request: pytest.FixtureRequest, stack: Stack, plain: str, once: Path) -> dict[str, Case]:
    """The recovery that meets each failpoint, of groups with a chosen one. Each group has a daemon of its own, whose
    environment its applications inherit; the next daemon adopts them.
    """
    found: dict[str, Case] = {}
    wanted = chosen_points(request)
    for number, points in enumerate(group for group in GROUPS if wanted & {*group}):
        named = ",".join(f"{point}:{passes(point)}" for point in points)
        environment = {"RECOVERYD_FAILPOINT": named, "RECOVERYD_FAILPOINT_ONCE": str(once / "met")}
        running = stack.daemon(f"group{number}", environment=environment, settings=ONE)
        case = Case(stack, f"p{number}", plain, f"{stack.mark}-group{number}")
        case.start(records_per_s=None)
        stack.follower.wait(lambda: all_met(once, points), 90, f"deaths at {points}")  # noqa: B023
        running.terminate()
        found.update(dict.fromkeys(points, case))
    return found


def all_met(once: Path, points: tuple[str, ...]) -> bool:
    return all((once / f"met.{point}").exists() for point in points)


def passes(point: str) -> int:
    """At which pass a failpoint fires: points within a chunk in the third chunk, so that there are receipts before it;
    others at once.
    """
    is_of_chunk = point.startswith("lane.after_") and point not in {"lane.after_init", "lane.after_receipts_read"}
    return 3 if is_of_chunk or point == "lane.before_commit" else 1


@pytest.fixture(scope="module")
def leader(stack: Stack, deaths: dict[str, Case]) -> DaemonProcess:
    return stack.daemon("leader", settings=ONE)


def test_every_failpoint_of_the_jobs_is_in_a_group() -> None:
    assert {point for points in GROUPS for point in points} == POINTS


@pytest.mark.scenario("S-CASTLE-3")
@pytest.mark.usefixtures("leader")
@pytest.mark.parametrize("point", [pytest.param(point, marks=WIDE.get(point, ())) for point in sorted(POINTS)])
def test_rows_4_and_5_a_driver_or_lane_killed_at_any_step_loses_and_doubles_nothing(
    deaths: dict[str, Case], once: Path, point: str
) -> None:
    deaths[point].judge()
    assert all_met(once, (point,)), "something died there"


@pytest.mark.wide(
    "tests/faults/test_jobs_killed.py::test_rows_4_and_5_a_driver_or_lane_killed_at_any_step_loses_and_doubles_nothing"
)
@pytest.mark.usefixtures("leader")
def test_row_4_a_driver_killed_again_and_again_is_replaced_each_time(stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    case.start()
    for attempt, records in ((1, 1), (2, 400)):
        case.copying(records)
        case.kill_driver(attempt)
    done = case.finish()
    assert done["attempt"] == 3


def test_row_6_an_attempt_frozen_until_the_next_is_done_wakes_fenced(
    stack: Stack, leader: DaemonProcess, new_case: NewCase
) -> None:
    case = new_case()
    case.start()
    case.copying()
    frozen = case.freeze()
    leader.kill()  # this daemon would end its silent child process; the next one does not know that process
    elsewhere = {
        **ONE,
        "work_dir": str(stack.folder / "another machine"),
    }  # and must not find it by files on disk
    successor = stack.daemon("successor", settings=elsewhere)
    try:
        done = case.finish()
        assert done["attempt"] == 2
        assert all(is_alive(p) for p in frozen)
    finally:
        case.thaw(frozen)
    await_gone(frozen, 60)
    case.assert_sound(case.ranges)
    successor.terminate()

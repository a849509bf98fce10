"""Row 11: the disk of the broker, of Spark or of the daemon is full. What was copied is exact, the error is reported,
and it goes on once there is space.
"""

from collections.abc import Iterator

import pytest

from recoveryd_sandbox.broker import Broker
from tests.e2e.case import Case, NewCase
from tests.e2e.data import fill_plain
from tests.e2e.processes import wait_for
from tests.e2e.small_disk import SmallDisk
from tests.e2e.stack import Stack
from tests.e2e.supervisor import Supervisor

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path_factory.mktemp("disk") / "small", 24) as mounted:
        yield mounted


@pytest.mark.wide(
    "tests/faults/test_broker_faults.py::test_row_7_a_broker_that_goes_away_and_comes_back_interrupts_and_breaks_nothing"
)
def test_row_11_a_broker_whose_disk_is_full_ends_and_with_space_the_copy_goes_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        SmallDisk(tmp_path_factory.mktemp("disk") / "kafka", 256) as disk,
        Broker(disk.folder, overrides={"log.index.size.max.bytes": "65536"}) as broker,
        Stack(broker.bootstrap, tmp_path_factory.mktemp("full"), {"attempts": {"heartbeat_timeout": "120s"}}) as stack,
        Supervisor(lambda: stack.daemon("kept", lead=False, settings={"faust": {"instance_id": "one"}})) as supervisor,
    ):
        supervisor.daemon.await_leader()
        source = f"{stack.mark}-source"
        fill_plain(stack.bootstrap, source, 4, 4_000)
        case = Case(stack, "full", source, f"{stack.mark}-copy")
        case.start()
        case.copying()
        # Kafka keeps the indexes of its logs in sparse files. Without space, the signal comes amid an append: the
        # record is in the log, its offset is given once more, and that broker has damaged its own log.
        disk.hold(file for kind in ("index", "timeindex") for file in broker.folder.rglob(f"*.{kind}"))
        disk.fill()
        wait_for(lambda: not broker.is_running(), 60, lambda: "a broker without a log directory goes on")
        disk.free()
        broker.start()
        case.finish()
        assert set(supervisor.exit_codes) <= {70}, "a daemon that left did so for its supervisor"


def test_row_11_a_daemon_whose_disk_is_full_says_so_leads_on_and_with_space_copies(
    stack: Stack, new_case: NewCase, disk: SmallDisk
) -> None:
    settings = {"work_dir": str(disk.folder / "work"), "attempts": {"max_failures": 2}}
    with stack.running(name="narrow", settings=settings) as daemon:
        disk.fill()
        case = new_case(observe=False)
        case.start(records_per_s=None)
        failed = case.failed()
        assert "No space left on device" in failed["why"]
        assert failed["error_code"].startswith("RCV-")
        daemon.await_leader()
        disk.free()
        after = new_case()
        after.start(records_per_s=None)
        after.judge()
        daemon.await_leader()


@pytest.mark.wide(
    "tests/faults/test_disk_full.py::test_row_11_a_daemon_whose_disk_is_full_says_so_leads_on_and_with_space_copies"
)
def test_row_11_with_a_full_disk_under_spark_a_copy_is_exact_or_fails_by_name(
    stack: Stack, new_case: NewCase, disk: SmallDisk
) -> None:
    settings = {
        "profiles": {"default": {"conf": {"spark.local.dir": str(disk.folder)}}},
        "attempts": {"max_failures": 2},
    }
    with stack.running(name="spark-full", settings=settings) as daemon:
        disk.fill()
        case = new_case()
        case.start(records_per_s=None)
        ended = stack.follower.wait_state(case.recovery, ["completed", "failed"], 120)
        if ended["state"] == "completed":
            case.assert_sound(case.ranges)
        else:
            assert "No space left on device" in ended["why"]
            case.judge_what_was_covered()
        disk.free()
        after = new_case()
        after.start(records_per_s=None)
        wait_for(lambda: any(disk.folder.iterdir()), 60, lambda: "Spark does not use the disk that was full")
        after.judge()
        daemon.await_leader()

"""Row 31: a broker that stands still, or answers late, longer than a transaction may last, again and again: the same daemon goes on leading.

The default lengths are just longer than the journal's transaction time-out, which is what matters; the environment makes them longer.
"""

import os
import time
from collections.abc import Iterator

import pytest

from sandbox.broker import Broker
from sandbox.ports import free_ports
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.slow_link import BehindLink, SlowLink
from tests.e2e.stack import Stack
from tests.faults.conftest import NewCase

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]

FROZEN_S = float(os.environ.get("RECOVERYD_TEST_FROZEN_S", "33"))
LATE_S = float(os.environ.get("RECOVERYD_TEST_LATE_S", "33"))
TIMES = 3
SETTINGS = {"attempts": {"heartbeat_timeout": "60s", "max_failures": 10}}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, SlowLink]]:
    port, advertised = free_ports(2)
    with (
        SlowLink(advertised, port) as link,
        Broker(tmp_path_factory.mktemp("still"), port=port, layout=BehindLink(advertised)) as started,
    ):
        yield started, link


@pytest.fixture(scope="module")
def stack(own_broker: tuple[Broker, SlowLink], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(own_broker[0].bootstrap, tmp_path_factory.mktemp("standstill"), SETTINGS) as made:
        yield made


@pytest.fixture
def leader(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running(name="still") as daemon:
        yield daemon


@pytest.mark.parametrize("how", ["frozen", "late"])
def test_row_31_a_broker_that_stands_still_leaves_the_same_daemon_leading(
    own_broker: tuple[Broker, SlowLink], stack: Stack, leader: DaemonProcess, new_case: NewCase, how: str
) -> None:
    broker, link = own_broker
    case = new_case()
    case.start(records_per_s=100)
    case.copying(100)
    for number in range(TIMES):
        if how == "frozen":
            broker.pause()
            time.sleep(FROZEN_S)  # the length of the fault itself
            broker.cont()
        else:
            link.hold()
            time.sleep(LATE_S)  # the length of the fault itself
            link.let_go()
        leader.await_leader(120)
        asked = stack.control.command("throttle", case.recovery, {"limits": {"max_records_per_s": 101 + number}})
        assert stack.follower.wait_answer(asked, 60)["type"] == "io.recoveryd.event.command_accepted.v1"
    case.finish()
    assert leader.is_leader()

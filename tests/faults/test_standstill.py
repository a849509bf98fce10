"""Row 31: a broker hangs, or answers late, for longer than a transaction may last, several times: the same daemon goes
on leading.

By default each fault is just longer than the journal's transaction timeout, and comes once; environment variables make
it longer and more: `make test-all` and `make soak` set them.
"""

import os
import time
from collections.abc import Iterator

import pytest

from tests.e2e.case import NewCase
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.proxy import ProxiedBroker
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]

FROZEN_S = float(os.environ.get("RECOVERYD_TEST_FROZEN_S", "33"))
LATE_S = float(os.environ.get("RECOVERYD_TEST_LATE_S", "33"))
TIMES = int(os.environ.get("RECOVERYD_TEST_STANDSTILLS", "1"))  # of each fault
SLOWLY = 20  # records per second: the copy outlasts the faults, however long it then takes until somebody leads


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    with ProxiedBroker(tmp_path_factory.mktemp("still")) as started:
        yield started


@pytest.fixture(scope="module")
def stack(own_broker: ProxiedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose daemon and applications know only the proxy, while the tests read from the broker directly."""
    settings = {
        "clusters": {"main": {"bootstrap.servers": own_broker.through.bootstrap}},
        "attempts": {"heartbeat_timeout": "60s", "max_failures": 10},
    }
    with Stack(own_broker.bootstrap, tmp_path_factory.mktemp("standstill"), settings) as made:
        yield made


@pytest.fixture
def leader(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running(name="still") as daemon:
        yield daemon


def frozen(broker: ProxiedBroker) -> None:
    broker.pause()
    time.sleep(FROZEN_S)  # the length of the fault itself
    broker.cont()


def late(broker: ProxiedBroker) -> None:
    broker.through.hold_replies()
    time.sleep(LATE_S)  # the length of the fault itself
    broker.through.let_go()


def test_row_31_a_broker_that_stands_still_leaves_the_same_daemon_leading(
    own_broker: ProxiedBroker, stack: Stack, leader: DaemonProcess, new_case: NewCase
) -> None:
    case = new_case()
    case.start(records_per_s=SLOWLY)
    for number, stands_still in enumerate([frozen] * TIMES + [late] * TIMES):
        case.going_on(2 * SLOWLY)
        stands_still(own_broker)
        leader.await_leader(120)
        asked = stack.control.command("throttle", case.recovery, {"limits": {"max_records_per_s": SLOWLY + 1 + number}})
        answer = stack.follower.wait_answer(asked, 60)
        assert answer["type"] == "io.recoveryd.event.command_accepted.v1", answer
    case.finish()
    leader.await_leader()

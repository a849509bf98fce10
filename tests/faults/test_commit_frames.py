"""Row 8, and row 4 inside the commit: frames that end a transaction, or their replies, are held, late or lost, between
lanes and broker and between daemon and broker. Each lane has a connection and transactions of its own, so lanes of one
copy meet different faults.
"""

import time
from collections.abc import Iterator

import pytest

from tests.e2e.case import Case, NewCase
from tests.e2e.processes import kill, wait_for
from tests.e2e.proxy import Api, ProxiedBroker, Proxy, Trap
from tests.e2e.stack import Stack
from tests.e2e.supervisor import Supervisor
from tests.e2e.transactions import Transaction, describe

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.e2e,
    pytest.mark.faults,
    pytest.mark.usefixtures("supervisor"),
]

TRANSACTION_TIMEOUT_S = 15
LANES = 3
LATE_S = 8.0  # longer than one commit call of a lane waits, shorter than a transaction may take


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    overrides = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    with ProxiedBroker(tmp_path_factory.mktemp("proxied"), overrides=overrides) as started:
        yield started


@pytest.fixture(scope="module")
def proxy(own_broker: ProxiedBroker) -> Proxy:
    return own_broker.through


@pytest.fixture(scope="module")
def stack(own_broker: ProxiedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose daemon and applications know only the proxy, while the tests read from the broker directly."""
    settings = {
        "clusters": {"main": {"bootstrap.servers": own_broker.through.bootstrap}},
        "attempts": {"transaction_timeout": f"{TRANSACTION_TIMEOUT_S}s", "heartbeat_timeout": "60s"},
        "profiles": {"default": {"master": f"local[{LANES},4]", "warm": 1}},
    }
    with Stack(own_broker.bootstrap, tmp_path_factory.mktemp("frames"), settings) as made:
        yield made


def lane_id(case: Case, lane: int) -> str:
    return f"recoveryd.{case.stack.prefix.rstrip('.')}.{case.recovery}.{lane}"


def journal_id(stack: Stack) -> str:
    return f"recoveryd.{stack.prefix.rstrip('.')}.journal"


@pytest.fixture
def case(new_case: NewCase) -> Case:
    """A replay that has begun to copy."""
    made = new_case()
    made.start()
    made.copying()
    return made


def hold_commits(proxy: Proxy, case: Case, *lanes: int) -> list[tuple[Trap, Transaction]]:
    """The next commit of each of these lanes is on its way and does not arrive; its transaction as the broker
    sees it.
    """
    held = [proxy.hold(Api.END_TXN, lane_id(case, lane), times=1) for lane in lanes]
    for each in held:
        each.await_met()
    return [(each, describe(case.stack.bootstrap, lane_id(case, lane))) for each, lane in zip(held, lanes, strict=True)]


def test_row_8_a_commit_of_which_a_lane_never_hears_and_one_that_comes_late_land_once(proxy: Proxy, case: Case) -> None:
    lost = proxy.lose_replies(Api.END_TXN, lane_id(case, 0), times=4)
    [(late, _)] = hold_commits(proxy, case, 1)
    time.sleep(LATE_S)  # the length of the fault itself: meanwhile the lane repeats its request
    late.release()
    lost.await_met(4)
    assert case.finish()["attempt"] == 1


def test_row_8_a_commit_that_the_broker_did_not_wait_for_is_written_again(proxy: Proxy, case: Case) -> None:
    """That of lane 0 arrives at last, that of lane 1 never."""
    (arrives, before), (never, other) = hold_commits(proxy, case, 0, 1)
    assert before.state == other.state == "Ongoing"
    await_epoch_after(case, 0, before)
    await_epoch_after(case, 1, other)
    arrives.release()
    never.drop()
    case.finish()


def test_row_8_a_journal_tells_of_each_command_once_when_its_commits_are_not_confirmed_or_late(
    stack: Stack, proxy: Proxy, supervisor: Supervisor, case: Case
) -> None:
    leader = supervisor.daemon.pid
    lost = proxy.lose_replies(Api.END_TXN, journal_id(stack), times=4)
    commands = [stack.control.command(verb, case.recovery) for verb in ("pause", "resume")]
    lost.await_met(4)
    for command in commands:
        stack.follower.wait_answer(command)
    case.going_on()
    held = proxy.hold(Api.END_TXN, journal_id(stack), times=1)
    paused = stack.control.command("pause", case.recovery)
    held.await_met()
    case.going_on(300)  # lanes do not wait for the daemon
    assert stack.follower.answers(paused) == [], "what is not committed is not told"
    held.release()
    stack.follower.wait_answer(paused)
    stack.follower.wait_state(case.recovery, "paused")
    resumed = stack.control.command("resume", case.recovery)
    done = case.finish()
    assert_answered_once(stack, [done["command"]["id"], *commands, paused, resumed])
    assert (supervisor.daemon.pid, supervisor.exit_codes) == (leader, []), "the same daemon leads on"


@pytest.mark.parametrize("victim", [
    "worker",
    pytest.param("driver", marks=pytest.mark.wide(
        "tests/faults/test_commit_frames.py::test_row_4_whoever_dies_while_its_commit_is_on_its_way_loses_and_doubles_nothing"
    )),
])  # fmt: skip
def test_row_4_whoever_dies_while_its_commit_is_on_its_way_loses_and_doubles_nothing(
    stack: Stack, proxy: Proxy, case: Case, victim: str
) -> None:
    """The dead producer's request arrives before the next one fences it, after that, or never: a lane for each."""
    (first, _), (late, before), (never, _) = hold_commits(proxy, case, *range(LANES))
    fencing = [proxy.hold(Api.INIT_PRODUCER_ID, lane_id(case, lane)) for lane in range(LANES)]
    case.kill_driver() if victim == "driver" else [kill(worker) for worker in case.workers(least=LANES)]
    for each in fencing:
        each.await_met()
    first.release()
    wait_for(lambda: describe(stack.bootstrap, lane_id(case, 0)).state != "Ongoing", 20)
    never.drop()
    for each in fencing:
        each.release()
    await_epoch_after(case, 1, before)
    late.release()
    assert case.finish()["attempt"] == (2 if victim == "driver" else 1)


def await_epoch_after(case: Case, lane: int, before: Transaction) -> None:
    """Waits until the broker has ended the transaction without its producer: because it took too long, or because the
    next producer came.
    """

    def look() -> Transaction:
        return describe(case.stack.bootstrap, lane_id(case, lane))

    wait_for(
        lambda: (now := look()).epoch > before.epoch and now.state != "PrepareAbort",
        TRANSACTION_TIMEOUT_S,
        lambda: f"{look()} after {before}",
    )


def assert_answered_once(stack: Stack, commands: list[str]) -> None:
    assert [len(stack.follower.answers(command)) for command in commands] == [1] * len(commands)

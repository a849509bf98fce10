"""Rows 7, 9 and 16, on a broker of their own that may be killed, frozen and reconfigured: the broker goes away,
transactions time out, the log is compacted while it is read.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest
from confluent_kafka import Producer

from recoveryd_sandbox.broker import Broker
from tests.builders.history import Draft, create_topics, produce
from tests.e2e.case import Case, NewCase
from tests.e2e.clients import writer
from tests.e2e.data import BASE_MS, fill_plain
from tests.e2e.log_reader import read_log, whole_log
from tests.e2e.processes import kill, wait_for
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

TRANSACTION_TIMEOUT_S = 6
FROZEN_S = 20.0


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    overrides = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "log.cleaner.backoff.ms": "200",
        "log.segment.delete.delay.ms": "1000",
    }
    with Broker(tmp_path_factory.mktemp("own"), overrides=overrides) as started:
        yield started


@pytest.fixture(scope="module")
def stack(own_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"attempts": {"transaction_timeout": f"{TRANSACTION_TIMEOUT_S}s", "heartbeat_timeout": "60s"}}
    with Stack(own_broker.bootstrap, tmp_path_factory.mktemp("brokers"), settings) as made:
        yield made


def killed(broker: Broker) -> None:
    broker.kill()
    broker.start()


def ended(broker: Broker) -> None:
    broker.stop()
    broker.start()


def frozen(broker: Broker) -> None:
    broker.pause()
    time.sleep(FROZEN_S)  # the length of the fault itself
    broker.cont()


@pytest.mark.parametrize("ways", [
    pytest.param((killed,), id="killed"),
    pytest.param((ended, frozen), id="ended and frozen", marks=pytest.mark.wide(
        "tests/faults/test_broker_faults.py::test_row_7_a_broker_that_goes_away_and_comes_back_interrupts_and_breaks_nothing"
    )),
])  # fmt: skip
def test_row_7_a_broker_that_goes_away_and_comes_back_interrupts_and_breaks_nothing(
    own_broker: Broker, supervisor: Supervisor, new_case: NewCase, ways: Iterable[Callable[[Broker], None]]
) -> None:
    """By SIGKILL, or by SIGTERM and SIGSTOP: the copy goes on after each of them."""
    case = new_case()
    case.start()
    case.copying()
    for go_away in ways:
        go_away(own_broker)
        case.going_on()
    case.finish()
    assert set(supervisor.exit_codes) <= {70}, "a daemon that left did so for its supervisor"


@pytest.mark.wide(
    "tests/faults/test_commit_frames.py::test_row_8_a_commit_that_the_broker_did_not_wait_for_is_written_again"
)
def test_row_9_a_chunk_whose_transaction_timed_out_is_written_again_once(stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    case.start()
    case.copying()
    wait_for(lambda: time_out(stack, case), 5 * TRANSACTION_TIMEOUT_S)
    for worker in case.workers():
        kill(worker, signal.SIGCONT)
    case.finish()


def time_out(stack: Stack, case: Case) -> bool:
    """Whether transactions timed out: the lanes are frozen then. A lane may have asked for its end just before it was
    frozen; then that came of it, and the lanes go on.
    """
    frozen = frozen_inside(stack, case)
    told = wait_for(lambda: all_over(stack, frozen), TRANSACTION_TIMEOUT_S)
    if all(now.state == "CompleteAbort" for now in told):
        return True
    for worker in case.workers():
        kill(worker, signal.SIGCONT)
    return False


def frozen_inside(stack: Stack, case: Case) -> dict[str, int]:
    """Freezes the lanes while they hold open transactions; returns the epoch of each. Between two chunks none is open;
    then the lanes go on for a moment first.
    """
    names = [f"recoveryd.{stack.prefix.rstrip('.')}.{case.recovery}.{lane}" for lane in range(2)]

    def freeze() -> dict[str, int]:
        for worker in case.workers():
            kill(worker, signal.SIGSTOP)
        now = {name: describe(stack.bootstrap, name) for name in names}
        found = {name: told.epoch for name, told in now.items() if told.state == "Ongoing"}
        if not found:
            for worker in case.workers():
                kill(worker, signal.SIGCONT)
        return found

    return wait_for(freeze, 30)


def all_over(stack: Stack, epochs: Mapping[str, int]) -> list[Transaction]:
    """How these transactions are, once each was committed, or ended by the broker itself: only the broker raises the
    epoch of a frozen producer.
    """
    now = {name: describe(stack.bootstrap, name) for name in epochs}
    is_over = all(
        told.state == "CompleteCommit" or (told.state == "CompleteAbort" and told.epoch > epochs[name])
        for name, told in now.items()
    )
    return list(now.values()) if is_over else []


@pytest.mark.scenario("S-WIKI-4a")
def test_row_16_compaction_under_the_reader_takes_only_what_it_took_from_the_log(
    stack: Stack, new_case: NewCase, unique: str
) -> None:
    source, records, keys = f"{unique}source", 8_000, 50
    create_topics(stack.bootstrap, {source: 2}, {
        "cleanup.policy": "compact", "segment.bytes": str(1024 * 1024), "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000",
    })  # fmt: skip
    producer = writer(stack.bootstrap, linger_ms=5, batch_size=50_000)
    for number in range(records):
        for partition in range(2):
            unique_early = number < records // 2  # the first half is unique until the second half supersedes it
            key = f"k{number if unique_early else number % keys}".encode()
            produce(
                producer,
                source,
                Draft(partition, key, f"{partition}-{number}".encode().ljust(500), (), BASE_MS + number),
            )
    assert producer.flush(60) == 0
    before = read_log(stack.bootstrap, source)
    case = new_case(source)
    case.start(records_per_s=100)
    case.copying()
    supersede(producer, source, records // 2)
    at_start = len([r for rs in read_log(stack.bootstrap, source).values() for r in rs])
    wait_for(
        lambda: len([r for rs in read_log(stack.bootstrap, source, case.ranges).values() for r in rs]) < at_start - 1_000,
        60, lambda: "the cleaner did not take records of the range", every_s=1.0,
    )  # fmt: skip
    done = case.finish(before=before)
    assert sum(row["skipped"] for row in done["completeness"]) > 0
    assert whole_log(stack.bootstrap, source)[0][1] > case.ranges[0][1]


def supersede(producer: Producer, topic: str, keys: int) -> None:
    """Write a newer record for each of the first keys, so that the cleaner may remove the older ones."""
    for number in range(keys):
        for partition in range(2):
            produce(producer, topic, Draft(partition, f"k{number}".encode(), b"newer".ljust(500), (), BASE_MS))
    assert producer.flush(60) == 0


def test_the_broker_still_serves_plain_clients(own_broker: Broker, unique: str) -> None:
    """The faults above have ended, so later failures in this run are not caused by them."""
    topic = f"{unique}after"
    fill_plain(own_broker.bootstrap, topic, 1, 10)
    assert len(read_log(own_broker.bootstrap, topic)[0]) == 10
    assert threading.active_count() < 100

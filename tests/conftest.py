"""Fixtures shared by all tests: one real broker for the whole run (or for each worker of it), and names that no other
test uses.

`RECOVERYD_TEST_BOOTSTRAP=host:port` makes the run use a broker that is up already. `RECOVERYD_FAILURES=file` keeps what
failed in that file, so that a runner can print it last: clients of brokers that are gone write to the same screen.
"""

import gc
import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from recoveryd_jobs.contract.garbage import collect_in_own_thread
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.keeper import end_with_this

pytest_plugins = ["tests.streams.fixtures"]

settings.register_profile("untimed", deadline=None)  # the time of an example depends on how busy the machine is
settings.load_profile("untimed")

_SHORT_TIMERS = {
    "log.cleaner.backoff.ms": "500",  # who waits for compaction would wait for 15 s
    # A group without members or offsets is forgotten each ten minutes: a test that counts on it shall fail each time.
    "offsets.retention.check.interval.ms": "1000",
}


def pytest_configure() -> None:
    end_with_this()
    collect_in_own_thread()  # tests have admin clients as well


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that no worker is left with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


def pytest_collection_finish() -> None:
    """Thousands of tests are there from now on to the end, and need not be walked whenever garbage is collected."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """After each file with brokers: a client that only garbage holds, as the traceback of an expected error does, would go
    on connecting to brokers that are gone, and log that.
    """
    done = yield
    if item.get_closest_marker("broker") and (nextitem is None or nextitem.path != item.path):
        gc.collect()
    return done


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep a failure; of several processes the one that all of them report to does it."""
    path = os.environ.get("RECOVERYD_FAILURES")
    if path and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"FAILED {report.nodeid} ({report.when})\n{report.longreprtext}\n\n")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | None]:
    """The run's broker; `None` when the run uses one that was up already, which no test may stop or pause."""
    if os.environ.get("RECOVERYD_TEST_BOOTSTRAP"):
        yield None
        return
    with Broker(tmp_path_factory.mktemp("kafka"), overrides=_SHORT_TIMERS) as started:
        yield started
        gc.collect()


@pytest.fixture(scope="session")
def bootstrap(broker: Broker | None) -> str:
    """`host:port` of the run's broker."""
    return broker.bootstrap if broker is not None else os.environ["RECOVERYD_TEST_BOOTSTRAP"]


@pytest.fixture
def unique() -> str:
    """A prefix for topics, groups, recoveries and transactional ids that no other test has: `t1f2e3d4c-`."""
    return f"t{uuid.uuid4().hex[:8]}-"

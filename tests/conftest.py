"""Fixtures shared by all tests: one real broker for the whole run (or for each worker of it), and names that no other
test uses.

`RECOVERYD_TEST_BOOTSTRAP=host:port` makes the run use a broker that is up already. `RECOVERYD_FAILURES=file` keeps what
failed in that file, so that a runner can print it last: clients of brokers that are gone write to the same screen.
"""

import gc
import os
import re
import uuid
from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import chain, combinations
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression
from hypothesis import settings

from recoveryd.adapters import proc
from recoveryd_jobs.shared.garbage import collect_in_own_thread
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.keeper import end_with_this
from recoveryd_sandbox.ports import take_part

pytest_plugins = ["tests.streams.fixtures"]

settings.register_profile("untimed", deadline=None)  # the time of an example depends on how busy the machine is
settings.load_profile("untimed")

_MARK, _WORD = re.compile(r"\bmark\.(\w+)"), re.compile(r"\w+")
_OURS = frozenset({"broker", "spark", "e2e", "faults", "containers", "scenario", "cluster", "wide"})
_OF_TESTS = {
    "log.cleaner.backoff.ms": "500",  # who waits for compaction would wait for 15 s
    # A group without members or offsets is forgotten each ten minutes: a test that counts on it shall fail each time.
    "offsets.retention.check.interval.ms": "1000",
    # Nobody kills this one, and where all work at once it may be silent to itself for longer than the sandbox allows.
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "2000",  # half of what the sandbox's broker does at rest is telling that it lives
}


def pytest_configure() -> None:
    end_with_this()
    collect_in_own_thread()  # tests have admin clients as well
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        of = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        take_part(int(worker.removeprefix("gw")) % of, of)  # one that was lost is followed by one with a higher number


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether no test of a file can have the marks that `-m` wants, because neither the file nor the fixtures for it
    name them: many files are slow to import, and each worker of each part of a run would do it.
    """
    wanted = str(config.option.markexpr)
    words = set(_WORD.findall(wanted)) - {"and", "or", "not"}
    if not wanted or "=" in wanted or words - _OURS or collection_path.suffix != ".py":
        return None
    folders = (folder for folder in collection_path.parents if Path(__file__).parent in folder.parents)
    fixtures = (_marks_in(folder / "conftest.py") for folder in folders)
    named = _marks_in(collection_path).union(*fixtures) & words
    chosen = Expression.compile(wanted)
    subsets = chain.from_iterable(combinations(named, size) for size in range(len(named) + 1))
    return None if any(chosen.evaluate(set(some).__contains__) for some in subsets) else True


@cache
def _marks_in(file: Path) -> frozenset[str]:
    return frozenset(_MARK.findall(file.read_text(encoding="utf-8"))) if file.exists() else frozenset()


@pytest.hookimpl(trylast=True)  # of what was chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests come first, so that no worker is left with one of them at the end. Those that start Spark
    take all of the processor that they get, and most others wait: spread evenly, they leave each other room. The short
    ones of the others fill the end.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    in_order = sorted(files.values(), key=lambda tests: not any(map(_is_long, tests)))
    with_spark = [tests for tests in in_order if any(test.get_closest_marker("spark") for test in tests)]
    without = [tests for tests in in_order if not any(test.get_closest_marker("spark") for test in tests)]
    placed = _placed(with_spark, until=0.8) + _placed(without, until=1.0)
    items[:] = [test for _, tests in sorted(placed, key=lambda each: each[0]) for test in tests]


def _is_long(test: pytest.Item) -> bool:
    """Whether it is one that runs a daemon, or an application of Kafka Streams."""
    return test.get_closest_marker("e2e") is not None or test.path.parent.name == "streams"


def _placed(files: list[list[pytest.Item]], until: float) -> list[tuple[float, list[pytest.Item]]]:
    """Each with its place in a run from 0 to 1."""
    return [(until * number / len(files), tests) for number, tests in enumerate(files)]


def pytest_collection_finish() -> None:
    """Thousands of tests are there from now on to the end, and need not be walked whenever garbage is collected."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """After each file with brokers: a client that only garbage holds, as the traceback of an expected error does, would
    go on connecting to brokers that are gone, and log that.
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


@pytest.fixture
def see_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """/proc shows no process from then on, as it hides those of another user namespace."""

    def hide() -> None:
        (tmp_path / "proc").mkdir()
        monkeypatch.setattr(proc, "PROC", tmp_path / "proc")

    return hide


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | None]:
    """The run's broker; `None` when the run uses one that was up already, which no test may stop or pause."""
    if os.environ.get("RECOVERYD_TEST_BOOTSTRAP"):
        yield None
        return
    with Broker(tmp_path_factory.mktemp("kafka"), overrides=_OF_TESTS) as started:
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

"""Row 32: an application whose daemon and broker are gone for good ends itself (driver, JVM and workers), whatever it
was doing.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from recoveryd_sandbox.broker import Broker
from tests.e2e.data import fill_plain
from tests.e2e.processes import await_gone
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]

ORPHAN_AFTER_S = 20
SETTINGS = {"lease": {"orphan_after": f"{ORPHAN_AFTER_S}s"}, "profiles": {"default": {"warm": 1}}}


def test_row_32_an_application_without_daemon_and_broker_ends_itself(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Broker(tmp_path_factory.mktemp("gone")) as broker:
        assert_ends_itself(broker.bootstrap, tmp_path_factory.mktemp("orphans"), broker.kill)


@pytest.mark.wide("tests/faults/test_orphans.py::test_row_32_an_application_without_daemon_and_broker_ends_itself")
def test_row_32_an_application_without_daemon_ends_itself_although_its_broker_is_there(
    bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert_ends_itself(bootstrap, tmp_path_factory.mktemp("orphans"), lambda: None)


def assert_ends_itself(bootstrap: str, folder: Path, after: Callable[[], None]) -> None:
    """`after`: what else happens once the daemon is gone."""
    with Stack(bootstrap, folder, SETTINGS) as stack:
        source = f"{stack.mark}-plain"
        fill_plain(stack.bootstrap, source, 4, 4_000)
        daemon = stack.daemon()
        for name, rate in (("copies", 50), ("rests", 50)):
            stack.control.replay(
                name, source, f"{stack.mark}-{name}", target_create=True, limits={"max_records_per_s": rate}
            )
            stack.follower.wait_state(name, "running", 120)
        stack.control.command("pause", "rests")
        stack.follower.wait_state("rests", "paused")
        applications = [p for name in ("copies", "rests") for p in stack.application(name)]
        assert any(p.is_jvm for p in applications)
        assert any(p.is_spark_worker for p in applications)
        daemon.kill()
        after()
        await_gone(applications, ORPHAN_AFTER_S + 90.0)
        await_gone(stack.processes(), 30.0)

"""`recoveryctl top` beside a real daemon: its keys do what the verbs do, and it shows what came of them."""

import pytest

from tests.cli.terminal import Terminal
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

DEADLINE_S = 300.0


def test_keys_pause_throttle_and_resume_the_chosen_recovery(stack: Stack, daemon: DaemonProcess) -> None:
    run, source, target = "by-key", f"{stack.mark}-by-key", f"{stack.mark}-by-key-copy"
    fill_plain(stack.bootstrap, source, 2, 3_000)
    stack.control.replay(run, source, target, target_create=True, limits={"max_records_per_s": 20})
    stack.follower.wait_state(run, "running", DEADLINE_S)
    with Terminal("top", "--config", str(daemon.config), "--every", "200ms", bootstrap=stack.bootstrap) as terminal:
        terminal.until(lambda _: run in terminal.screen)
        terminal.type("p")
        terminal.until(lambda _: f"pause {run}: " in terminal.screen and "paused" in terminal.screen)
        stack.follower.wait_state(run, "paused")
        terminal.type("t9MB\r")
        terminal.until(lambda _: f"throttle {run}: " in terminal.screen)
        terminal.type("r")
        terminal.until(lambda _: f"resume {run}: " in terminal.screen)
        resumed = stack.follower.wait_state(run, "running", DEADLINE_S)
        assert resumed["limits"]["requested"]["max_bytes_per_s"] == 9_000_000
        terminal.type("q")
        assert terminal.close() == 0
    stack.control.command("stop", run)
    stack.follower.wait_state(run, "stopped")

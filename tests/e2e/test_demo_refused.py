"""Commands of the demos: one that the daemon refuses ends the demo with the refusal, instead of a wait for what never
comes.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from recoveryd_sandbox import control
from recoveryd_sandbox.control import carry_out, make_command
from recoveryd_sandbox.errors import CommandRefused, SandboxError
from recoveryd_sandbox.foreground import FAILED, run
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

_PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    """Without a spare driver, which nobody would use."""
    with stack.running() as leading:
        yield leading


@pytest.fixture(autouse=True)
def _topics(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "TOPIC", f"{stack.prefix}control.v1")
    monkeypatch.setattr(control, "EVENTS", f"{stack.prefix}events.v1")


def command(verb: str, recovery: str, **data: Any) -> dict[str, Any]:
    return make_command("//demo", verb, recovery, {"reason": "a demo", **data})


def test_a_refused_command_ends_a_demo_with_the_refusal(stack: Stack, daemon: DaemonProcess) -> None:
    told: list[str] = []

    def demo() -> bool:
        carry_out(stack.bootstrap, command("pause", "nobody"), _PATIENCE_S)
        return True

    assert daemon.is_running()
    assert run(demo, told.append) == FAILED
    assert len(told) == 1
    assert told[0].startswith("pause nobody was rejected: RCV-")


def test_a_record_that_is_no_command_is_refused_too(stack: Stack, daemon: DaemonProcess) -> None:
    assert daemon.is_running()
    with pytest.raises(CommandRefused, match="replay wrong was rejected: RCV-"):
        carry_out(stack.bootstrap, command("replay", "wrong", source={"topic": "no such topic"}), _PATIENCE_S)


def test_an_accepted_command_is_gone_on_from(stack: Stack, daemon: DaemonProcess, plain: str) -> None:
    assert daemon.is_running()
    data = {
        "source": {"topic": plain, "from": "earliest", "to": "latest"},
        "target": {"topic": f"{plain}-planned", "create": True},
        "dry_run": True,
    }
    carry_out(stack.bootstrap, command("replay", "planned", **data), _PATIENCE_S)


def test_a_command_that_nobody_answers_is_said_to_be(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "TOPIC", f"{stack.prefix}events.v1")  # where nobody reads commands
    with pytest.raises(SandboxError, match="nobody answered pause nobody in 1 s look at the daemon's log"):
        carry_out(stack.bootstrap, command("pause", "nobody"), 1.0)

"""How the demos, the game day and the measured response end, and with which exit code."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from recoveryd.errors import ConfigProblem
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.foreground import run

pytestmark = pytest.mark.usefixtures("signals_as_before")


def fails() -> bool:
    raise SandboxError("the broker ended", "look at its log")


def is_unusable() -> bool:
    raise ConfigProblem("slo is required", "name one")


def is_ended(wanted: signal.Signals) -> Callable[[], bool]:
    def body() -> bool:
        os.kill(os.getpid(), wanted)
        time.sleep(60)
        return True

    return body


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (lambda: True, 0, ""),
        (lambda: False, 1, ""),
        (fails, 1, "failed: the broker ended look at its log"),
        (is_unusable, 2, "next: name one"),
        (is_ended(signal.SIGINT), 130, "Interrupted; everything that was started is stopped."),
        (is_ended(signal.SIGTERM), 130, "Interrupted; everything that was started is stopped."),
    ],
)
def test_each_end_has_its_exit_code_and_its_sentence(body: Callable[[], bool], code: int, said: str) -> None:
    told: list[str] = []
    assert run(body, told.append, lambda text: told.append(f"failed: {text}")) == code
    assert said in "".join(told)

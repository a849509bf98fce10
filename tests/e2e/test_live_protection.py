"""The controller with a real copy: real lanes follow its grants, which it makes by the signals that an application
sends to the control topic.
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.background import Background
from tests.e2e.control import Control
from tests.e2e.data import fill_plain
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

FLOOR, MOST = 30_000, 450_000  # at most so fast that the copy outlasts a machine that stands still
RECOVERY = "guest"
START_ANYWAY = {"override_live_slo": True}  # a machine that stood still makes the canary slow, which would refuse it
SETTINGS = {
    "monitor": {"health": [{"name": "outside", "slo": "100ms"}], "canary": {"latency_slo": "5s"}},
    "control": {"period": "1s", "loop_delay": "3s", "max_bytes_per_s": MOST, "min_bytes_per_s": FLOOR},
}


class Application(Background):
    """An application that sends its own latency twice a second; None = it sends nothing."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        super().__init__()
        self.latency_s: float | None = 0.010
        self.told = 0
        self._control = Control(bootstrap, prefix)

    def run(self) -> None:
        while not self.ended.wait(0.5):
            if self.latency_s is not None:
                self._control.raw(json.dumps(make_signal(self.told, self.latency_s)).encode())
                self.told += 1


def make_signal(number: int, latency_s: float) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "specversion": "1.0",
        "id": f"outside-{number}",
        "source": "//tests/application",
        "type": "io.recoveryd.signal.health.v1",
        "time": now,
        "data": {
            "cluster": "main", "name": "outside", "value": latency_s, "unit": "s", "status": "ok", "sampled_at": now,
        },
    }  # fmt: skip


class Guest:
    """What the daemon says about the one recovery."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def granted(self) -> float:
        status = self._stack.follower.status(RECOVERY) or {}
        return float((status.get("limits") or {}).get("effective_bytes_per_s") or 0.0)

    def copied(self) -> int:
        return int((self._stack.follower.status(RECOVERY) or {"progress": {"bytes": 0}})["progress"]["bytes"])

    def first_granted(self) -> float:
        """The rate it began with."""
        rates = [(s.get("limits") or {}).get("effective_bytes_per_s") for s in self._stack.follower.statuses(RECOVERY)]
        return float(next(rate for rate in rates if rate))

    def await_granted(self, condition: Callable[[float], bool], about: str, deadline_s: float = 45.0) -> float:
        """The first rate seen for which it holds."""

        def look() -> float:
            rate = self.granted()
            return rate if condition(rate) else 0.0

        return self._stack.follower.wait(look, deadline_s, f"{about}; granted is {self.granted():,.0f}")

    def decisions(self) -> list[dict[str, Any]]:
        found = self._stack.follower.events()
        return [e["data"] for e in found if e["type"] == "io.recoveryd.event.throttle_decided.v1"]


class Window:
    """Looks for five seconds in which something was copied, but not above the floor; begins anew until there are."""

    def __init__(self, copied: Callable[[], int]) -> None:
        self._copied = copied
        self._mark, self._began_s = copied(), time.monotonic()

    def is_kept(self) -> bool:
        passed_s, more = time.monotonic() - self._began_s, self._copied() - self._mark
        if passed_s < 5:
            return False
        if 0 < more <= 1.5 * FLOOR * passed_s:
            return True
        if more:
            self._mark, self._began_s = self._copied(), time.monotonic()
        return False


@pytest.mark.scenario("S-RUN-1", "S-RUN-5c", "S-RUN-15", "S-RUN-30")
def test_a_replay_takes_what_live_traffic_can_spare_yields_at_its_slo_and_waits_at_the_floor_in_the_dark(
    stack: Stack,
) -> None:
    source, target = f"{stack.mark}-backlog", f"{stack.mark}-guest"
    fill_plain(stack.bootstrap, source, 4, 8_000, value_bytes=1_000)
    guest = Guest(stack)
    with stack.running(settings=SETTINGS), Application(stack.bootstrap, stack.prefix) as application:
        wait_for(lambda: application.told >= 16, 10)  # the baseline without a replay is learned from samples
        stack.control.replay(RECOVERY, source, target, target_create=True, limits=START_ANYWAY)
        stack.follower.wait_state(
            RECOVERY, "running"
        )  # no mode was requested, so it is controlled, because something is protected
        before = guest.await_granted(
            lambda rate: rate >= 5 * FLOOR, "the rate never rose although live traffic is well"
        )
        assert guest.first_granted() <= 2 * FLOOR
        application.latency_s = 0.250  # so far over that it is never doubted to be ours
        guest.await_granted(lambda rate: rate <= 0.6 * before, "live traffic is over its SLO and the rate was not cut")

        application.latency_s = 0.010
        guest.await_granted(lambda rate: rate >= 4 * FLOOR, "live traffic is well again and the rate did not come back")

        application.latency_s = None
        guest.await_granted(lambda rate: rate <= 1.01 * FLOOR, "nothing is measured and the rate is not at the floor")
        at_floor = Window(guest.copied)
        stack.follower.wait(at_floor.is_kept, 30, "five seconds in which the lanes keep to the floor and still copy")

        application.latency_s = 0.010
        guest.await_granted(lambda rate: rate >= 2 * FLOOR, "the telemetry is back and the rate is not")
        stack.control.command("throttle", RECOVERY, {"limits": {"mode": "unlimited"}})
        assert stack.completed(RECOVERY)["verification"]["result"] == "match"
    assert stack.violations(RECOVERY, source, target) == []
    rules = {decision["rule_name"] for decision in guest.decisions()}
    assert {"slow_start", "guard", "stale"} <= rules
    assert any(RECOVERY in decision["recoveries"] for decision in guest.decisions())
    for decision in guest.decisions():
        assert decision["why"]
        assert decision["domain"] == "main"

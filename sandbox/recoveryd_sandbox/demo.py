"""`make demo`: one whole recovery on a real Kafka, then a second one that gives way to a burst of live traffic, comes
back, is paused and resumed.

The command is put on the control topic with a plain Kafka producer, as any program could do; what is shown comes from
the daemon's status, and what does not hold is said in a sentence. Everything is real, and removed at the end.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recoveryd_sandbox.control import ENDED, carry_out, make_command
from recoveryd_sandbox.demo_screen import SLO_SECONDS, Screen
from recoveryd_sandbox.demo_stack import DemoStack
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.foreground import run
from recoveryd_sandbox.live import LiveProducer, LiveReader
from recoveryd_sandbox.seed import seed

# Slower than what arrives: from the burst on the board falls behind for as long as the replay does not give way.
LIVE_RECORDS_PER_S, BOARD_RECORDS_PER_S = 500.0, 300.0
BURST_RECORDS = 9_000
PACED_BYTES_PER_S = 1_500_000  # so slow that the copy outlasts the burst on a busy machine too
BURST_AT_BYTES_PER_S = 500_000
BACK_SHARE = 1.1  # of the rate it gave way to
BOARD_WELL_S = 3.0
OVER_SLO_SHARE = 0.05  # of the time: other work on this machine delays a canary too
STEP_DEADLINE_S = 900.0  # enough for a busy machine; a step usually takes seconds
# A machine that is busy starting Kafka and Spark may make the canary slow, which alone would refuse a replay.
START_ANYWAY = {"override_live_slo": True}
Status = dict[str, Any]


def main() -> int:
    """0 when every promise held, 1 when not, 130 after Ctrl-C."""
    screen = Screen()

    def demo() -> bool:
        with DemoStack() as stack:
            promised = _tell(stack, screen)
            screen.say("\nStopping everything the demo started ...")
        is_kept = is_as_promised(screen, promised)
        screen.next_steps()
        return is_kept

    return run(demo, screen.say, screen.fail)


def is_as_promised(screen: Screen, promised: Sequence[str]) -> bool:
    """Says how it ended. `promised`: what `Screen.promise` gave for each promise, "" where it holds."""
    broken = [sentence for sentence in promised if sentence]
    screen.verdict(broken)
    return not broken


def _tell(stack: DemoStack, screen: Screen) -> list[str]:
    """The sentences that do not hold."""
    screen.title("1  A real Kafka with real data")
    live, board = _set_up(stack, screen)
    began_s = time.monotonic()

    screen.title("2  One record on the control topic starts a recovery")
    first = _replay(
        "flights-rerun", "flights.v42", "wrong delay unit in v41", limits={"mode": "unlimited", **START_ANYWAY}
    )
    screen.record("recovery.control.v1", first)
    carry_out(stack.bootstrap, first, STEP_DEADLINE_S)
    done = _follow(stack, screen, "flights-rerun", lambda s: s["state"] in ENDED)
    screen.outcome(done)

    screen.title("3  The same again next to live traffic: the controller finds the rate that can be spared")
    limits = {"max_bytes_per_s": PACED_BYTES_PER_S, **START_ANYWAY}
    paced = _replay("flights-paced", "flights.v43", "same again, politely", limits=limits)
    _await_board(board)
    carry_out(stack.bootstrap, paced, STEP_DEADLINE_S)
    screen.say(f"limits.max_bytes_per_s = {PACED_BYTES_PER_S / 1e6:.1f} MB/s is its ceiling; it starts at the floor")
    broken = _burst(stack, screen, live, board)

    carry_out(
        stack.bootstrap, _command("pause", "flights-paced", {"reason": "let the nightly job pass"}), STEP_DEADLINE_S
    )
    paused = _follow(stack, screen, "flights-paced", lambda s: s["state"] in {"paused", *ENDED})
    screen.paused(paused)
    carry_out(
        stack.bootstrap, _command("resume", "flights-paced", {"reason": "the nightly job is through"}), STEP_DEADLINE_S
    )
    lifted = {"reason": "the airport is closed", "limits": {"mode": "unlimited", "max_bytes_per_s": None}}
    screen.say("at night nothing has to be spared: its limits are lifted")
    carry_out(stack.bootstrap, _command("throttle", "flights-paced", lifted), STEP_DEADLINE_S)
    second = _follow(stack, screen, "flights-paced", lambda s: s["state"] in ENDED)
    screen.outcome(second)
    screen.protection(stack.daemon)
    screen.live(live.stats())
    return [*broken, *judged(screen, _measured(stack, screen, (done, second), paused, time.monotonic() - began_s))]


def _set_up(stack: DemoStack, screen: Screen) -> tuple[LiveProducer, LiveReader]:
    stack.broker.start(STEP_DEADLINE_S)
    screen.say(f"Apache Kafka {screen.strong('is up')} at {stack.bootstrap} (its own process, KRaft, one node)")
    report = seed(stack.bootstrap)
    screen.say(
        f"topic {screen.strong('flights')}: {report.records:,} flights out of New York in 2013, 4 partitions, in "
        f"{report.seconds:.1f} s"
    )
    live, board = stack.start_live(LIVE_RECORDS_PER_S)
    screen.say(
        f"topic {screen.strong('flights.live')}: a live producer at {LIVE_RECORDS_PER_S:.0f} records/s, and a "
        "departure board that reads it"
    )
    stack.start_daemon()
    screen.say(f"recoveryd leads; health and metrics at http://{stack.http}/metrics")
    screen.say("protected from now on: the board's time lag (15 s) and the produce latency of a canary (1 s)")
    return live, board


def _burst(stack: DemoStack, screen: Screen, live: LiveProducer, board: LiveReader) -> list[str]:
    """The board falls behind until the replay has given way, however long that takes; then it catches up."""
    _follow(stack, screen, "flights-paced", lambda s: _granted(s) >= BURST_AT_BYTES_PER_S)
    screen.say(
        f"a burst: {BURST_RECORDS:,} live records at once; the board shows {BOARD_RECORDS_PER_S:.0f}/s, and falls behind"
    )
    board.slow_down(BOARD_RECORDS_PER_S)
    live.burst(BURST_RECORDS)
    seen = [0.0]

    def gives_way(status: Status) -> bool:
        seen.append(_granted(status))
        is_less = 0 < _granted(status) < max(seen)
        return status["state"] == "running" and is_less and "of its SLO" in str(status["limits"].get("rule"))

    low = _follow(stack, screen, "flights-paced", gives_way)
    screen.gave_way(max(seen), low)
    board.hurry()
    high = _follow(
        stack, screen, "flights-paced", lambda s: s["state"] == "running" and _granted(s) > BACK_SHARE * _granted(low)
    )
    screen.came_back(high)
    return [
        screen.promise("the replay gave way to the burst", holds=low["state"] == "running"),
        screen.promise("it came back by itself when the board had caught up", holds=high["state"] == "running"),
    ]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run of the demo came to. `over_slo_s`: how long protected signals were over their SLO, together, in
    `seconds`; `excused_s`: how much of that came of a machine that stood still.
    """

    ended: Sequence[Status]
    paused: Status
    failed_records: int
    over_slo_s: float
    excused_s: float
    seconds: float


def _measured(stack: DemoStack, screen: Screen, ended: tuple[Status, ...], paused: Status, seconds: float) -> Measured:
    assert stack.live is not None
    assert stack.daemon is not None
    over_s = sum(stack.daemon.await_metrics(SLO_SECONDS, STEP_DEADLINE_S).values())
    excused_s = stack.standstill.excused_s()
    if excused_s:
        screen.say(
            f"this machine stood still; what live traffic missed in these {excused_s:.0f} s is not the replays' doing"
        )
    return Measured(ended, paused, stack.live.stats().failed_records, over_s, excused_s, seconds)


def judged(screen: Screen, run: Measured) -> list[str]:
    """For each promise its sentence if it does not hold, else ""."""
    found = {(s["state"], (s.get("verification") or {}).get("result")) for s in run.ended}
    lags = {s["progress"]["lag_records"] for s in run.ended}
    kept_slo = run.over_slo_s <= OVER_SLO_SHARE * run.seconds + run.excused_s
    return [
        screen.promise("both recoveries are completed and proved", holds=found == {("completed", "match")}),
        screen.promise("their lag is zero", holds=lags == {0}),
        screen.promise("the pause was drained", holds=run.paused["state"] == "paused"),
        screen.promise("no live record failed", holds=run.failed_records == 0),
        screen.promise("live traffic kept its SLO, 95 % of the time at least", holds=kept_slo),
    ]


def _await_board(board: LiveReader) -> None:
    """A recovery is refused while live traffic is over its SLO already, as it may be on a machine that was too busy."""
    give_up_at_s = time.monotonic() + STEP_DEADLINE_S
    while board.behind_s() > BOARD_WELL_S:
        if time.monotonic() >= give_up_at_s:
            raise SandboxError(f"the board is still {board.behind_s():.0f} s behind: this machine is too busy")
        time.sleep(0.2)


def _granted(status: Status) -> float:
    return float((status.get("limits") or {}).get("effective_bytes_per_s") or 0.0)


def _replay(recovery: str, target: str, reason: str, **more: object) -> Status:
    data = {
        "reason": reason,
        "source": {"topic": "flights", "from": "earliest", "to": "latest"},
        "target": {"topic": target, "create": True},
        **more,
    }
    return _command("replay", recovery, data)


def _command(verb: str, recovery: str, data: Status) -> Status:
    return make_command("//demo", verb, recovery, data)


def _follow(stack: DemoStack, screen: Screen, recovery: str, until: Callable[[Status], bool]) -> Status:
    """Show the recovery until the condition holds. Raises SandboxError past the deadline."""
    deadline_s = time.monotonic() + STEP_DEADLINE_S
    with screen.progress(recovery) as show:
        while time.monotonic() < deadline_s:
            status = stack.status(recovery)
            if status is not None:
                show(status)
                if until(status):
                    return status
                if status["state"] in ENDED:
                    raise SandboxError(f"{recovery} ended as {status['state']}: {status['why']}")
            time.sleep(0.2)
    raise SandboxError(
        f"{recovery} did not come as far as expected in {STEP_DEADLINE_S:.0f} s", f"its log is in {stack.folder}"
    )


if __name__ == "__main__":
    sys.exit(main())

"""`make demo`: one whole recovery on a real Kafka, then a second one that is throttled, paused and resumed.

The command is put on the control topic with a plain Kafka producer, as any program could do; what is shown comes from
the daemon's status. Everything is real, and everything is removed at the end.
"""

import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from recoveryd_sandbox.control import ENDED, make_command, send
from recoveryd_sandbox.demo_screen import Screen
from recoveryd_sandbox.demo_stack import DemoStack
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.seed import seed

LIVE_RECORDS_PER_S = 500.0
PACED_BYTES_PER_S = 8_000_000
STEP_DEADLINE_S = 300.0  # enough for a busy machine; a step usually takes seconds
Status = dict[str, Any]


def main() -> int:
    """0 when both recoveries were completed and verified, 1 when not, 130 after Ctrl-C."""
    screen = Screen()
    # SIGINT too, because a shell may have set it to be ignored; SIGTERM cleans up in the same way.
    for wanted_end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wanted_end, signal.default_int_handler)
    try:
        with DemoStack() as stack:
            ok = _tell(stack, screen)
            screen.say("\nStopping everything the demo started ...")
    except KeyboardInterrupt:
        screen.say("\nInterrupted; everything the demo started is stopped.")
        return 130
    except SandboxError as error:
        screen.fail(str(error))
        return 1
    screen.next_steps()
    return 0 if ok else 1


def _tell(stack: DemoStack, screen: Screen) -> bool:
    screen.title("1  A real Kafka with real data")
    stack.broker.start()
    screen.say(f"Apache Kafka {screen.strong('is up')} at {stack.bootstrap} (its own process, KRaft, one node)")
    report = seed(stack.bootstrap)
    screen.say(
        f"topic {screen.strong('flights')}: {report.records:,} flights out of New York in 2013, 4 partitions, in "
        f"{report.seconds:.1f} s"
    )
    stack.start_live(LIVE_RECORDS_PER_S)
    screen.say(
        f"topic {screen.strong('flights.live')}: a live producer at {LIVE_RECORDS_PER_S:.0f} records/s, and a group "
        "that reads it"
    )
    stack.start_daemon()
    screen.say(f"recoveryd leads; health and metrics at http://{stack.http}/metrics")
    screen.say("protected from now on: the group's time lag (15 s) and the produce latency of a canary (p99 200 ms)")

    screen.title("2  One record on the control topic starts a recovery")
    first = _replay("flights-rerun", "flights.v42", "wrong delay unit in v41", limits={"mode": "unlimited"})
    screen.record("recovery.control.v1", first)
    send(stack.bootstrap, first)
    done = _follow(stack, screen, "flights-rerun", lambda s: s["state"] in ENDED)
    screen.outcome(done)

    screen.title("3  The same again next to live traffic: the controller finds the rate that can be spared")
    paced = _replay(
        "flights-paced", "flights.v43", "same again, politely", limits={"max_bytes_per_s": PACED_BYTES_PER_S}
    )
    send(stack.bootstrap, paced)
    screen.say(f"limits.max_bytes_per_s = {PACED_BYTES_PER_S / 1e6:.0f} MB/s is its ceiling; it starts at the floor")
    _follow(stack, screen, "flights-paced", lambda s: s["progress"]["records"] > 60_000)
    send(stack.bootstrap, _command("pause", "flights-paced", {"reason": "let the nightly job pass"}))
    paused = _follow(stack, screen, "flights-paced", lambda s: s["state"] in {"paused", *ENDED})
    screen.paused(paused)
    send(stack.bootstrap, _command("resume", "flights-paced", {"reason": "the nightly job is through"}))
    send(
        stack.bootstrap,
        _command(
            "throttle", "flights-paced", {"reason": "all that can be spared", "limits": {"max_bytes_per_s": None}}
        ),
    )
    second = _follow(stack, screen, "flights-paced", lambda s: s["state"] in ENDED)
    screen.outcome(second)
    screen.protection(stack.daemon)
    if stack.live is not None:
        screen.live(stack.live.stats())
    return all(s["state"] == "completed" and s["verification"]["result"] == "match" for s in (done, second))


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
                if until(status) or status["state"] in ENDED:
                    return status
            time.sleep(0.2)
    raise SandboxError(
        f"{recovery} did not come as far as expected in {STEP_DEADLINE_S:.0f} s", f"its log is in {stack.folder}"
    )


if __name__ == "__main__":
    sys.exit(main())

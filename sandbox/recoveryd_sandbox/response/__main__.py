"""`make response`: how live traffic answers to a replay at several parts of its unlimited rate, in random order.

Takes about half an hour on a machine that does nothing else. Ends with a data file, which the simulator takes as its
second plant (`recoveryctl simulate --response FILE`), and a picture. `--write-docs` puts them where recoveryd and its
documents have them.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from recoveryd.simulation.response import FILE, FORMAT, Response, ResponseStep, response_text
from recoveryd_sandbox.foreground import run
from recoveryd_sandbox.gameday.scenario import Load
from recoveryd_sandbox.gameday.stack import GamedayStack
from recoveryd_sandbox.machine import machine, versions
from recoveryd_sandbox.response.picture import draw
from recoveryd_sandbox.response.scenario import ResponseScenario, read_response_scenario
from recoveryd_sandbox.response.steps import Steps

DATA = Path("daemon/recoveryd/simulation") / FILE
PICTURE = Path("docs/img/response.png")
_MOST_BYTES_PER_S, _FLOOR_BYTES_PER_S = 60_000_000, 600_000  # nothing runs under the controller here


def main() -> int:
    """0 when everything was measured, 1 when it failed, 2 for a scenario that cannot be used, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", type=Path, help="a scenario file (default: the standard one)")
    for name, what in (("seconds", "that each rate is held"), ("repeats", "of each rate"), ("seed", "of the order")):
        parser.add_argument(f"--{name}", type=int, help=f"{what}, instead of what the scenario says")
    parser.add_argument("--note", default="", help="a sentence that the data file shall have")
    parser.add_argument("--data", type=Path, default=Path(FILE), help="where the data goes")
    parser.add_argument("--picture", type=Path, default=Path("response.png"), help="where the picture goes")
    parser.add_argument("--write-docs", action="store_true", help=f"write {DATA} and {PICTURE}")
    options = parser.parse_args()
    data, picture = (DATA, PICTURE) if options.write_docs else (options.data, options.picture)

    def response() -> bool:
        given = {name: getattr(options, name) for name in ("seconds", "repeats", "seed")}
        changes = {name: value for name, value in given.items() if value is not None}
        scenario = read_response_scenario(options.scenario, changes)
        with GamedayStack() as stack:
            measured = measure(stack, scenario, options.note)
        data.parent.mkdir(parents=True, exist_ok=True)
        data.write_text(response_text(measured), encoding="utf-8")
        say(f"\ndata: {data}")
        picture.parent.mkdir(parents=True, exist_ok=True)
        draw(picture, measured)
        say(f"picture: {picture}")
        return True

    return run(response, say)


def measure(stack: GamedayStack, scenario: ResponseScenario, note: str) -> Response:
    """The whole measurement. Raises `SandboxError`."""
    stack.start_broker()
    steps = Steps(stack, scenario, say)
    say(f"Kafka is up; a backlog of {scenario.backlog_records:,} records is written")
    steps.fill(scenario.backlog_records)
    stack.start_traffic(Load(live_records_per_s=scenario.live_records_per_s, backlog_records=scenario.backlog_records))
    stack.start_daemon(scenario.slo.slos, _MOST_BYTES_PER_S, _FLOOR_BYTES_PER_S)
    bytes_per_s, records_per_s = steps.unlimited()
    say(f"unlimited: {bytes_per_s / 1e6:.1f} MB/s, {records_per_s:,.0f} records/s")
    steps.fill(scenario.records_needed(records_per_s))
    found: list[ResponseStep] = []
    for order, (repeat, share) in enumerate(scenario.order(), start=1):
        found.append(steps.step(order, repeat, share))
        say(f"  {order:>2} of {len(scenario.order())}  {_line(found[-1])}")
    return Response(
        format=FORMAT,
        note=note or f"scenario {scenario.name}",
        measured_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        machine=machine(),
        versions=versions(),
        seed=scenario.seed,
        live_records_per_s=scenario.live_records_per_s,
        target_compression=scenario.target_compression,
        slo_p99_ms=scenario.slo.p99,
        slo_lag_s=scenario.slo.lag / 1000,
        unlimited_bytes_per_s=round(bytes_per_s),
        steps=tuple(found),
    )


def _line(step: ResponseStep) -> str:
    return (
        f"{step.share:4.0%}  {step.bytes_per_s / 1e6:5.1f} MB/s  canary p50/p90/p99 {step.canary_p50_ms:.1f}/"
        f"{step.canary_p90_ms:.1f}/{step.canary_p99_ms:.1f} ms  live p99 {step.live_p99_ms:.1f} ms  lag {step.lag_s:.1f} s"
        f"  broker {step.broker_cores:.2f} cores"
    )


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""`make gameday`: the same recovery unlimited, at a fixed rate and under the controller, next to live traffic that an
independent process measures.

Takes about twelve minutes on two cores. Ends with a table, a picture and verdicts; exit code 0 when all promises of
live protection held, else 1. `--write-docs` puts table and picture into docs/.
"""

import argparse
import os
import platform
import signal
import sys
from pathlib import Path

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.flights import FLIGHTS_TOTAL
from recoveryd_sandbox.gameday.judge import Tally, Verdict, judge_cut, judge_quiet, judge_run, verdicts
from recoveryd_sandbox.gameday.report import draw, page, rows, table
from recoveryd_sandbox.gameday.runs import MODES, Phase, Runs
from recoveryd_sandbox.gameday.scenario import GROUP, TOPIC, Scenario, Slos
from recoveryd_sandbox.gameday.stack import GamedayStack
from recoveryd_sandbox.seed import seed

PICTURE = Path("docs/img/gameday.png")
PAGE = Path("docs/gameday.md")


def main() -> int:
    """0 when every promise held, 1 when one was missed or the game day failed, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-docs", action="store_true", help=f"write {PAGE} and {PICTURE}")
    parser.add_argument("--picture", type=Path, default=Path("gameday.png"), help="where the picture goes otherwise")
    options = parser.parse_args()
    for wanted_end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wanted_end, signal.default_int_handler)
    scenario = Scenario()
    try:
        with GamedayStack() as stack:
            phases, slos, records = hold(stack, scenario)
    except KeyboardInterrupt:
        say("\nInterrupted; everything the game day started is stopped.")
        return 130
    except SandboxError as error:
        say(f"{error}")
        return 1
    return tell(
        phases, slos, scenario, records, PICTURE if options.write_docs else options.picture, is_docs=options.write_docs
    )


def hold(stack: GamedayStack, scenario: Scenario) -> tuple[list[Phase], Slos, int]:
    """All phases in order, the SLOs they are judged by, and the records that each run copied."""
    say("1  Kafka, live traffic and its observer")
    stack.broker.start()
    repeat = -(-scenario.load.backlog_records // FLIGHTS_TOTAL)
    report = seed(stack.broker.bootstrap, TOPIC, repeat=repeat)
    say(
        f"  backlog: {report.records:,} records ({report.bytes / 1e6:,.0f} MB), "
        f"{report.records / scenario.load.live_records_per_s / 60:.0f} minutes of live traffic"
    )
    runs = Runs(stack, scenario, say)
    runs.pin_backlog()
    stack.start_traffic(scenario.load.live_records_per_s)
    say(f"  live: {scenario.load.live_records_per_s:,.0f} records/s to {TOPIC}, read by {GROUP}; no replay for now")
    quiet = runs.without_replay()
    slos = runs.slos(quiet)
    say(f"  SLOs: p99 of a second below {slos.p99_s * 1000:.0f} ms, lag below {slos.lag_s:.0f} s")
    stack.start_daemon(scenario, slos)
    phases = [quiet]
    for number, mode in enumerate(MODES, start=2):
        say(f"\n{number}  {mode}")
        runs.settle(slos)
        limits = (
            {"max_bytes_per_s": int(scenario.fixed_share * phases[1].copied_bytes / phases[1].lasted_s)}
            if mode == "fixed"
            else {}
        )
        phases.append(runs.run(mode, limits))
        say(f"  took {phases[-1].lasted_s:.0f} s")
    return phases, slos, report.records


def tell(phases: list[Phase], slos: Slos, scenario: Scenario, records: int, picture: Path, *, is_docs: bool) -> int:
    """Print table and verdicts, draw the picture; returns the exit code."""
    tallies = judge(phases, slos)
    controller = phases[-1]
    granted = [(poll.at_s, poll.granted) for poll in controller.polls if poll.granted is not None]
    same = len({phase.status["progress"]["records"] for phase in phases[1:]}) == 1
    found = [
        *verdicts(tallies["unlimited"], tallies["controller"]),
        judge_cut(granted, controller.cut, scenario.floor_bytes_per_s),
        Verdict(same, f"all three runs copied the same {records:,} records"),
    ]
    shown = rows(phases, tallies)
    say("\n" + table(shown) + "\n")
    for verdict in found:
        say(f"{'kept  ' if verdict.passed else 'MISSED'}  {verdict.sentence}")
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw(picture, phases, slos)
    say(f"\npicture: {picture}")
    if is_docs:
        PAGE.write_text(page(shown, found, scenario, slos, records, _machine()), encoding="utf-8")
        say(f"page: {PAGE}")
    return 0 if all(verdict.passed for verdict in found) else 1


def judge(phases: list[Phase], slos: Slos) -> dict[str, Tally]:
    quiet_phase, *runs = phases
    assert quiet_phase.slow is not None
    quiet = judge_quiet(quiet_phase.seconds, quiet_phase.slow, slos)
    tallies = {run.name: judge_run(run.seconds, run.lasted_s, run.slow, slos, quiet) for run in runs}
    return {
        quiet_phase.name: judge_run(quiet_phase.seconds, quiet_phase.lasted_s, quiet_phase.slow, slos, quiet),
        **tallies,
    }


def say(text: str) -> None:
    print(text, flush=True)


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores of {platform.machine()}, Linux"
        if sys.platform == "linux"
        else platform.platform(terse=True)
    )


if __name__ == "__main__":
    sys.exit(main())

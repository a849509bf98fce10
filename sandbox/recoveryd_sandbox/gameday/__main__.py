"""`make gameday`: the same recovery unlimited, at the best fixed rate and under the controller, next to live traffic
that an independent process measures.

Takes about three hours on two cores for all scenarios (ARGS=NAME runs one). Ends with a table, a picture and verdicts
for each; exit code 0 when all that was promised held. `--write-docs` puts tables and pictures into docs/.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recoveryd_sandbox.foreground import run
from recoveryd_sandbox.gameday.day import Day, hold, verdicts
from recoveryd_sandbox.gameday.judge import Verdict
from recoveryd_sandbox.gameday.report import COLUMNS, draw, page, rows, section, table
from recoveryd_sandbox.gameday.scenario import NAMES, Scenario, read_gameday
from recoveryd_sandbox.gameday.stack import GamedayStack
from recoveryd_sandbox.machine import machine

PICTURES = Path("docs/img")
PAGE = Path("docs/gameday.md")
_RUNS_MOST = 9


def main() -> int:
    """0 when every promise held, 1 when one was missed or the game day failed, 2 for a scenario that cannot be used,
    130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"{', '.join(NAMES)}, or a file; all of these")
    parser.add_argument("--runs", type=int, choices=range(1, _RUNS_MOST + 1), default=3, help="of each kind")
    parser.add_argument("--write-docs", action="store_true", help=f"write {PAGE} and its pictures")
    parser.add_argument("--pictures", type=Path, default=Path(), help="the folder of the pictures otherwise")
    options = parser.parse_args()
    folder = PICTURES if options.write_docs else options.pictures

    def gameday() -> bool:
        scenarios = [read_gameday(name) for name in options.scenarios or NAMES]
        kept = [_hold(scenario, options.runs, folder, is_docs=options.write_docs) for scenario in scenarios]
        return all(kept)  # a missed promise does not end the day

    return run(gameday, say)


def _hold(scenario: Scenario, runs: int, folder: Path, *, is_docs: bool) -> bool:
    """Whether everything held. Each scenario has its own Kafka, and is written down before the next one begins."""
    say(f"\n== {scenario.name}: {scenario.about}")
    with GamedayStack() as stack:
        day = hold(stack, scenario, runs, say)
    found = verdicts(day)
    _tell(day, found)
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"gameday-{scenario.name}.png"
    draw(picture, day)
    say(f"\npicture: {picture}")
    if is_docs:
        here = machine()
        text = section(day, found, f"{here.cpu}, {here.cores} cores, {here.memory_gib:.0f} GiB, {here.system}")
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), {scenario.name: text}), encoding="utf-8")
        say(f"page: {PAGE}")
    return all(verdict.passed for verdict in found)


def _tell(day: Day, found: Sequence[Verdict]) -> None:
    say("\n" + table(COLUMNS, rows(day)) + "\n")
    for verdict in found:
        say(f"{'kept  ' if verdict.passed else 'MISSED'}  {verdict.sentence}")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""The result of a game day: a table and a picture for each scenario, and the page of the docs."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from textwrap import fill

from recoveryd.plots import Band, Bar, Column, Line, Panel, plot_columns
from recoveryd_sandbox.gameday.day import Day, tally_of
from recoveryd_sandbox.gameday.judge import Verdict, is_violated
from recoveryd_sandbox.gameday.runs import CONTROLLER, CUT, DEATH, FIXED, QUIET, UNLIMITED, Phase
from recoveryd_sandbox.gameday.scenario import NAMES, Scenario, read_gameday

COLUMNS = ("run", "runs", "took s", "copy s", "proof s", "MB/s", "p99 median ms", "worst ms", "longest lag s", "over p99 s", "over lag s",
           "beyond no replay s", "share")  # fmt: skip
KINDS = (QUIET, UNLIMITED, FIXED, CONTROLLER, CUT, DEATH)
_MB = 1e6
_TOLD = re.compile(
    r"^- (kept|\*\*missed\*\*): the controller took .*?, ([\d.]+) times the \d+ s of ([a-z ]+)", re.MULTILINE
)
_BAD = re.compile(r"^- (kept|\*\*missed\*\*): ([\d.]+%) of its seconds were bad", re.MULTILINE)


def rows(day: Day) -> list[tuple[str, ...]]:
    """One row per kind of run, medians over its runs, as text."""
    return [_row(day, kind, day.quiet if kind == QUIET else day.runs[kind]) for kind in KINDS if _is_there(day, kind)]


def _is_there(day: Day, kind: str) -> bool:
    return kind == QUIET or bool(day.runs.get(kind))


def _row(day: Day, kind: str, phases: Sequence[Phase]) -> tuple[str, ...]:
    tallies = [tally_of(phase, day.scenario, day.judged_by) for phase in phases]
    p99s = sorted(s.p99_s for phase in phases for s in phase.seconds if s.p99_s is not None)
    lags = [s.lag_s for phase in phases for s in phase.seconds if s.lag_s is not None]
    is_run = kind != QUIET
    whole = median if is_run else sum  # stretches without a replay count together, runs one by one
    took_s = whole(t.seconds for t in tallies)
    return (
        _named(day, kind),
        f"{len(phases)} (and {day.given_up} stopped early)" if kind == FIXED and day.given_up else str(len(phases)),
        f"{took_s:.0f}",
        f"{median(phase.copying_s for phase in phases):.0f}" if is_run else "-",
        f"{median(phase.proving_s for phase in phases):.0f}" if is_run else "-",
        f"{median(phase.copied_bytes / phase.copying_s for phase in phases) / _MB:.1f}" if is_run else "-",
        f"{p99s[len(p99s) // 2] * 1000:.0f}" if p99s else "-",
        f"{p99s[-1] * 1000:.0f}" if p99s else "-",
        f"{max(lags, default=0.0):.1f}",
        f"{whole(t.by_p99_s for t in tallies):.0f}",
        f"{whole(t.by_lag_s for t in tallies):.0f}",
        f"{median(t.attributable_s for t in tallies):.0f}" if is_run else "-",
        f"{median(t.share for t in tallies):.1%}" if is_run else "-",
    )


def _named(day: Day, kind: str) -> str:
    return f"{FIXED} (unlimited)" if kind == FIXED and day.is_unlimited_best else kind


def table(header: Sequence[str], found: Sequence[Sequence[str]]) -> str:
    """Markdown that is readable as plain text."""
    lines = [header, ["---" for _ in header], *found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(path: Path, day: Day) -> None:
    """One column per kind of run, each with the run that took the median time, and the same axes."""
    kinds = [kind for kind in KINDS if _is_there(day, kind) and not (kind == FIXED and day.is_unlimited_best)]
    shown = [day.usual(kind) for kind in kinds if kind != QUIET]
    plot_columns(path, [_column(day, phase) for phase in (day.quiet[0], *shown)], f"Game day: {day.scenario.name}")


def _column(day: Day, phase: Phase) -> Column:
    slos, zero_s = day.scenario.slos, phase.start_s
    at_s = [s.at_s - zero_s for s in phase.seconds]
    bands = [
        Band(span[0] - zero_s, span[1] - zero_s, name)
        for span, name in ((phase.slow, "slow broker"), (phase.cut, "telemetry cut"), (phase.dead, "no daemon"))
        if span
    ]
    polled = [poll.at_s - zero_s for poll in phase.polls]
    proof_s = math.inf if phase.proof_from_s is None else phase.proof_from_s
    rates = [Line("copied", polled, [poll.bytes_per_s / _MB if poll.at_s < proof_s else None for poll in phase.polls])]
    if phase.proof_from_s is not None:
        read = [poll.bytes_per_s / _MB if poll.at_s >= proof_s else None for poll in phase.polls]
        rates.append(Line("read by the proof", polled, read))
    if any(poll.granted is not None for poll in phase.polls):
        granted = [None if poll.granted is None else poll.granted / _MB for poll in phase.polls]
        rates.append(Line("granted", polled, granted))
    p99s = [None if s.p99_s is None else s.p99_s * 1000 for s in phase.seconds]
    over = float(sum(is_violated(s, slos) for s in phase.seconds))
    return Column(
        phase.name if phase.fixed is None else f"{phase.name}: {phase.fixed / _MB:.1f} MB/s",
        [
            Panel("p99 of each second", "ms", [Line("p99", at_s, p99s)], slos.p99_s * 1000, bands, is_log=True),
            Panel("time lag", "s", [Line("lag", at_s, [s.lag_s for s in phase.seconds])], slos.lag_s, bands),
            Panel("rate of the replay", "MB/s", rates, bands=bands),
        ],
        Bar(over, phase.lasted_s, f"{over:.0f} s over the SLO / {phase.lasted_s:.0f} s"),
    )


def section(day: Day, found: Sequence[Verdict], machine: str) -> str:
    """The part of docs/gameday.md that one scenario has."""
    told = "\n".join(f"- {'kept' if v.passed else '**missed**'}: {v.sentence}" for v in found)
    search = ", ".join(f"{rate / _MB:.1f} MB/s {share:.1%}" for rate, share in day.tried)
    tried = f"Searched for the best fixed rate (rate, share of bad seconds): {search}.\n\n" if search else ""
    return f"""{_describe(day.scenario)}

Measured on {machine}.

{table(COLUMNS, rows(day))}

{told}

{tried}![p99, lag and rate of each run](img/gameday-{day.scenario.name}.png)
"""


def _describe(scenario: Scenario) -> str:
    load, slos = scenario.load, scenario.slos
    swing = f", at half and at twice of that in turns of {load.swing / 1000:.0f} s" if load.swing else ""
    broker = (
        f" The broker compresses them ({scenario.target_compression})."
        if scenario.target_compression != "producer"
        else ""
    )
    reader = f"; the group reads at most {load.reader_records_per_s:,.0f}" if load.reader_records_per_s else ""
    return fill(
        f"{scenario.about} {load.live_records_per_s:,.0f} live records/s{swing}{reader}. The recovery copies "
        f"{load.backlog_records:,} records.{broker} SLOs: p99 of a second below {slos.p99_s * 1000:.0f} ms, time lag below "
        f"{slos.lag_s:g} s. Promised: {_promise(scenario)}",
        120,
        break_on_hyphens=False,
    )


def _promise(scenario: Scenario) -> str:
    target = scenario.target
    word, times = "less than" if target.strictly else "at most", f"{target.most_times:g} times "
    times = f"{word} {'' if target.most_times == 1 else times}the time of {target.against}"
    return f"{times}, and at most {target.bad_share_most:.0%} of bad seconds beyond no replay."


def page(before: str, sections: dict[str, str]) -> str:
    """The page with these sections; what was measured of other scenarios stays as it is in `before`."""
    unmeasured = "Not measured on this version yet."
    found = re.findall(r"^## Scenario `([\w-]+)`\n\n(.*?)(?=^## |\Z)", before, re.MULTILINE | re.DOTALL)
    kept = {name: text for name, text in found if unmeasured not in text}
    scenarios = [read_gameday(name) for name in NAMES]
    texts = {
        s.name: (sections.get(s.name) or kept.get(s.name) or f"{_describe(s)}\n\n{unmeasured}").strip()
        for s in scenarios
    }
    parts = [f"## Scenario `{name}`\n\n{text}" for name, text in texts.items()]
    overview = table(
        ("scenario", "what it shows", "SLOs", "promised of the controller", "measured"),
        [
            (
                f"`{s.name}`",
                s.about,
                f"{s.slos.p99_s * 1000:.0f} ms, {s.slos.lag_s:g} s",
                _promise(s),
                _measured(texts[s.name]),
            )
            for s in scenarios
        ],
    )
    return _HEAD.replace("OVERVIEW", overview) + "\n\n".join(parts) + "\n"


def _measured(text: str) -> str:
    """What a section says of the promise, in short."""
    told, bad = _TOLD.search(text), _BAD.search(text)
    if told is None or bad is None:
        return "not on this version yet"
    kept = told[1] if told[1] != "kept" else bad[1]
    return f"{kept}: {told[2]} times {told[3].strip()}, {bad[2]} bad"


_HEAD = """# A game day

`make gameday` shows on a real Kafka what the simulator shows on a model: how much live traffic suffers under the same
recovery when nothing limits it, at the best fixed rate, and under the controller, and how long each takes. Somebody who
has time to search for the best fixed rate, and whose live traffic never changes, needs no controller; the question is
what the controller costs everybody else.

`make gameday ARGS="today --write-docs"` runs one scenario and renews its section and picture; without a name all of them
run, for about three hours on a machine that does nothing else. Numbers of one machine do not hold for another.

OVERVIEW

- All of it is in the scenario's file (`sandbox/recoveryd_sandbox/gameday/scenarios/`), the SLOs too, before anything runs.
  Another file can be given instead of a name.
- Live traffic is real flights written to `flights.live`, and the group `flights-board` that reads them. The recovery
  copies older records of the same topic to another one and proves the copy (`verify: source`); the time is that of both.
  A fixed rate holds for the proof too, which reads both sides: at the rate of the copy it takes about twice as long. The
  controller finds out that reading does less harm here, and lets the proof run quicker. So compare `copy s` as well: who
  sits beside a recovery can lift its fixed rate when the proof begins, and would be done sooner than the table says.
- A share of bad seconds is less where the same harm is spread over a longer run. Of two runs with two bad seconds the
  one whose proof takes longer looks better, so compare the seconds too.
- The controller remembers what was safe, as it does from one recovery to the next: only the first of its runs begins
  without that. The time of each is in brackets, in order.
- In all scenarios but `harmless` the topic that is copied to has `compression.type=gzip`, so that the broker compresses
  what lanes bring: what they do themselves is done with low priority ([the processor
  first](policies/throttle.md#the-processor-first)), and an unlimited replay into a topic without it did no harm that
  could be measured here.
- An observer that is independent of the daemon measures the acknowledgements of 50 records of its own per second, and
  the position of the group. A second is bad when its p99 or the group's time lag is at or over its SLO.
- Live traffic alone is measured three times: before the first run, before the search, and after the last run; together
  at least as long as the longest run. "Beyond no replay" means the bad seconds of a run less those that live traffic alone
  would have had in the same time, the mean of one slow broker among them.
- `best fixed` is the highest fixed rate whose bad seconds beyond no replay are at most 2 % of its run, found by
  bisection on this machine, until the lowest bad rate is less than 1.15 times it; a rate is judged by most of its runs.
  Where unlimited is harmless, that is unlimited. A run of the search is stopped early once its bad seconds exceed by a
  fifth what a whole run may have; its share is counted up to that moment.
- Where live traffic is that of `make response`, the simulator is asked how long the copy takes under the controller; what
  it says has to be within 25 % of what was seen.
- Every kind of run is repeated three times (`--runs`), and judged by its median. The picture has the run of median time.
- In some scenarios the broker is stopped for 150 of every 300 ms during 12 s of each run, or there is one more run under
  the controller: in one the telemetry of the live application is cut for a minute, without which the rate must fall to
  its floor, and come back; in another the daemon is killed and started again a minute later. Lanes that hear of no daemon
  must not be quicker than the floor, and the copy must come back with the next daemon, to the same records.

"""

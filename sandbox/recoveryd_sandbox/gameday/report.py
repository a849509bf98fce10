"""The result of a game day as a table, a picture and a page of the docs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from recoveryd.cli.render.plots import Band, Line, Panel, plot
from recoveryd_sandbox.gameday.judge import Tally, Verdict
from recoveryd_sandbox.gameday.runs import Phase
from recoveryd_sandbox.gameday.scenario import Scenario, Slos

COLUMNS = (
    "run",
    "took s",
    "mean MB/s",
    "p99 of seconds: median ms",
    "worst ms",
    "longest lag s",
    "SLO violated s",
    "beyond no replay s",
    "share",
)


def rows(phases: Sequence[Phase], tallies: Mapping[str, Tally]) -> list[tuple[str, ...]]:
    """One row per phase, as text."""
    return [_row(phase, tallies[phase.name]) for phase in phases]


def _row(phase: Phase, tally: Tally) -> tuple[str, ...]:
    p99s = sorted(s.p99_s for s in phase.seconds if s.p99_s is not None)
    lags = [s.lag_s for s in phase.seconds if s.lag_s is not None]
    is_run = bool(phase.status)
    return (
        phase.name,
        f"{phase.lasted_s:.0f}",
        f"{phase.copied_bytes / phase.lasted_s / 1e6:.1f}" if is_run else "-",
        f"{p99s[len(p99s) // 2] * 1000:.0f}",
        f"{p99s[-1] * 1000:.0f}",
        f"{max(lags, default=0.0):.1f}",
        f"{tally.violated_s:.0f}",
        f"{tally.attributable_s:.0f}" if is_run else "-",
        f"{tally.share:.1%}" if is_run else "-",
    )


def table(found: Sequence[tuple[str, ...]]) -> str:
    """Markdown that is readable as plain text."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(path: Path, phases: Sequence[Phase], slos: Slos) -> None:
    """All phases on one time axis: latency, lag, rate."""
    zero_s = phases[0].start_s
    bands = [
        Band(p.slow[0] - zero_s, p.slow[1] - zero_s, "slow broker" if p is phases[0] else "") for p in phases if p.slow
    ]
    cuts = [Band(p.cut[0] - zero_s, p.cut[1] - zero_s, "telemetry cut") for p in phases if p.cut]

    def lines(value: str, scale: float) -> list[Line]:
        made = []
        for phase in phases:
            values = [getattr(s, value) for s in phase.seconds]
            made.append(
                Line(
                    phase.name,
                    [s.at_s - zero_s for s in phase.seconds],
                    [None if v is None else v * scale for v in values],
                )
            )
        return made

    runs = [p for p in phases if p.polls]
    rates = [
        Line(f"{p.name}: achieved", [q.at_s - zero_s for q in p.polls], [q.bytes_per_s / 1e6 for q in p.polls])
        for p in runs
    ]
    granted = [
        Line(
            f"{p.name}: granted",
            [q.at_s - zero_s for q in p.polls],
            [None if q.granted is None else q.granted / 1e6 for q in p.polls],
        )
        for p in runs
        if any(q.granted is not None for q in p.polls)
    ]
    panels = [
        Panel(
            "Live produce latency, p99 of each second, as the observer felt it",
            "ms",
            lines("p99_s", 1000),
            slos.p99_s * 1000,
            bands,
            is_log=True,
        ),
        Panel("Time lag of the protected group, as the observer saw it", "s", lines("lag_s", 1), slos.lag_s, bands),
        Panel("Rate of the replay", "MB/s", [*rates, *granted], bands=[*bands, *cuts]),
    ]
    plot(path, panels, "The same recovery three times, next to the same live traffic")


def page(
    found: Sequence[tuple[str, ...]],
    verdicts: Sequence[Verdict],
    scenario: Scenario,
    slos: Slos,
    records: int,
    machine: str,
) -> str:
    """The text of docs/gameday.md."""
    load, faults = scenario.load, scenario.faults
    told = "\n".join(f"- {'kept' if v.passed else '**missed**'}: {v.sentence}" for v in verdicts)
    stop_ms, cycle_ms = faults.stop_s * 1000, faults.cycle_s * 1000
    least_ms, most_ms = scenario.latency_least_s * 1000, scenario.latency_most_s * 1000
    return f"""# A game day

`make gameday` shows on a real Kafka what the simulator shows on a model: how much live traffic suffers under the same
recovery when nothing limits it, at a fixed rate, and under the controller. This page and its picture are written by
`make gameday ARGS=--write-docs`; the numbers are those of one run on {machine}.

- Live traffic: {load.live_records_per_s:,.0f} records/s of real flights to `flights.live`, and the group
  `flights-board` that reads them.
- The recovery copies {records:,} records, {load.backlog_s / 60:.0f} minutes of that traffic, from the same topic to
  another one. Broker, Spark, daemon and all applications share the machine, so an unlimited replay takes processor time
  from everybody.
- An observer that is independent of the daemon measures the acknowledgements of {50} records of its own per second, and
  the position of the group.
- SLOs, calibrated on the first minute: p99 of a second below {slos.p99_s * 1000:.0f} ms
  ({scenario.latency_factor:.0f} times a usual bad second, within {least_ms:.0f} and {most_ms:.0f} ms), time lag below
  {slos.lag_s:.0f} s.
- In every phase, even in the one without a replay, the broker is stopped for {stop_ms:.0f} of every {cycle_ms:.0f} ms
  during {faults.slow_s:.0f} s. In the controller's run the live application's own telemetry, one of the three signals
  by which the daemon protects it, is cut for {faults.cut_s:.0f} s.
- "Beyond no replay" subtracts what the first phase shows: its share of bad seconds in normal time, and the bad seconds
  that one slow broker causes.

{table(found)}

{told}

![p99, lag and rate of all phases](img/gameday.png)

The fixed rate is {scenario.fixed_share:.0%} of what the unlimited run reached: a rate that somebody has to know
beforehand. The controller is given none. It finds its rate from below, so it takes longer; when the broker becomes slow
it cuts the rate within a loop delay; and without telemetry it goes down to its floor.
Verification is left out of the runs (`verify: none`), since the copies are compared.
"""

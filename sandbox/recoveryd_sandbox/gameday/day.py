"""One scenario from its start to its verdicts: which runs there are, in which order, and what they are judged by."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from recoveryd.simulation.response import packaged_response
from recoveryd_sandbox.flights import FLIGHTS_TOTAL
from recoveryd_sandbox.gameday.judge import (
    Quiet,
    Tally,
    Verdict,
    judge_cut,
    judge_death,
    judge_quiet,
    judge_run,
    judge_target,
)
from recoveryd_sandbox.gameday.runs import CONTROLLER, CUT, DEATH, FIXED, UNLIMITED, Phase, Runs
from recoveryd_sandbox.gameday.scenario import TOPIC, Scenario
from recoveryd_sandbox.gameday.search import bad_seconds_most, best_rate, next_rate
from recoveryd_sandbox.gameday.simulated import is_comparable, judge_simulated
from recoveryd_sandbox.gameday.stack import GamedayStack
from recoveryd_sandbox.seed import seed

_SLOW_STRETCH_S = 30.0  # what of a stretch belongs to a slow broker


@dataclass(frozen=True)
class Day:
    """All that one scenario showed. `quiet`: the stretches without a replay; `runs` by kind, in the order in which they
    ran; `tried`: the search for the best fixed rate, as (bytes/s, share of bad seconds). `best` None = there is none;
    `given_up`: how many runs at that rate were stopped early and are not among its runs.
    """

    scenario: Scenario
    quiet: tuple[Phase, ...]
    runs: Mapping[str, tuple[Phase, ...]]
    tried: tuple[tuple[int, float], ...]
    best: int | None
    given_up: int = 0

    @property
    def judged_by(self) -> Quiet:
        """What the stretches without a replay show, together."""
        return _judged(self.quiet, self.scenario)

    def tallies(self, kind: str) -> list[Tally]:
        return [tally_of(phase, self.scenario, self.judged_by) for phase in self.runs.get(kind, ())]

    @property
    def is_unlimited_best(self) -> bool:
        """Whether no fixed rate was needed: the runs at the best one are the unlimited ones."""
        return bool(self.runs.get(FIXED)) and self.runs[FIXED] == self.runs[UNLIMITED]

    def usual(self, kind: str) -> Phase:
        """The run of this kind that took the median time."""
        ordered = sorted(self.runs[kind], key=lambda phase: phase.lasted_s)
        return ordered[(len(ordered) - 1) // 2]


def _judged(quiet: Sequence[Phase], scenario: Scenario) -> Quiet:
    return judge_quiet(((phase.seconds, phase.slow) for phase in quiet), scenario.slos)


def tally_of(phase: Phase, scenario: Scenario, quiet: Quiet) -> Tally:
    return judge_run(phase.seconds, phase.lasted_s, phase.slow, scenario.slos, quiet)


def hold(stack: GamedayStack, scenario: Scenario, runs: int, say: Callable[[str], None]) -> Day:
    """Run the scenario, each kind of run `runs` times. Raises `SandboxError`."""
    load = scenario.load
    stack.bind(scenario.cores)
    stack.start_broker()
    whole, part = divmod(load.backlog_records, FLIGHTS_TOTAL)
    for limit, repeat in ((None, whole), (part, 1)):
        if repeat and limit != 0:
            seed(stack.broker.bootstrap, TOPIC, limit=limit, repeat=repeat, append=True)
    stage = Runs(stack, scenario, say)
    stage.pin_backlog()
    stack.start_traffic(load)
    stack.start_daemon(scenario.slos, scenario.most, scenario.floor)
    found = _all_runs(stage, scenario, runs, say)
    longest_s = max(phase.lasted_s for kind in found.runs.values() for phase in kind)
    rest = _quiet(stage, scenario, say, longest_s - sum(phase.lasted_s for phase in found.quiet))
    return replace(found, quiet=(*found.quiet, rest))


def _quiet(stage: Runs, scenario: Scenario, say: Callable[[str], None], least_s: float = 0.0) -> Phase:
    say("without a replay")
    stage.settle()
    slow_s = _SLOW_STRETCH_S if scenario.slow_broker is not None else 0.0
    return stage.without_replay(max(scenario.quiet / 1000 + slow_s, least_s))


def _all_runs(stage: Runs, scenario: Scenario, runs: int, say: Callable[[str], None]) -> Day:
    """Every run of the recovery: unlimited, the search for the best fixed rate, the controller, telemetry cut, the
    daemon killed; with a stretch without a replay before the first one, and before the search.
    """
    quiet = [_quiet(stage, scenario, say)]

    def run(kind: str, fixed: int | None = None, bad_most_s: float = math.inf) -> Phase:
        say(kind if fixed is None else f"fixed at {fixed / 1e6:.1f} MB/s")
        stage.settle()
        phase = stage.run(kind, fixed, bad_most_s)
        tally = tally_of(phase, scenario, _judged(quiet, scenario))
        say(f"  took {phase.lasted_s:.0f} s, {tally.share:.1%} of them bad beyond no replay")
        return phase

    unlimited = [run(UNLIMITED) for _ in range(runs)]
    quiet.append(_quiet(stage, scenario, say))
    before = _judged(quiet, scenario)
    rate = int(median(phase.copied_bytes / phase.copying_s for phase in unlimited))
    share_most = scenario.target.bad_share_most
    trials = {rate: [tally_of(phase, scenario, before).share for phase in unlimited]}
    fixed: dict[int, list[Phase]] = {rate: unlimited}
    tried: list[tuple[int, float]] = []
    while (wanted := next_rate(trials, rate, share_most, runs)) is not None:
        took = {at: p.lasted_s for at, ran in fixed.items() if at != rate for p in ran if not p.is_given_up}
        phase = run(FIXED, wanted, bad_seconds_most(wanted, took, share_most, before))
        fixed.setdefault(wanted, []).append(phase)
        trials.setdefault(wanted, []).append(tally_of(phase, scenario, before).share)
        tried.append((wanted, trials[wanted][-1]))
    best = best_rate(trials, share_most)
    by_kind = {UNLIMITED: tuple(unlimited), CONTROLLER: tuple(run(CONTROLLER) for _ in range(runs))}
    if best is not None:
        by_kind[FIXED] = tuple(phase for phase in fixed[best] if not phase.is_given_up)
    given_up = sum(phase.is_given_up for phase in fixed.get(best or 0, ()))
    if scenario.cut is not None:
        by_kind[CUT] = (run(CUT),)
    if scenario.death is not None:
        by_kind[DEATH] = (run(DEATH),)
    return Day(scenario, tuple(quiet), by_kind, tuple(tried), best, given_up)


def verdicts(day: Day) -> list[Verdict]:
    """What was promised for the scenario, and whether the runs can be compared at all."""
    target = day.scenario.target
    found = []
    if day.best is None and target.against == "best fixed":
        found.append(Verdict(False, "no fixed rate was found that is safe, so there is nothing to compare with"))
    else:
        found += judge_target(target, day.tallies(UNLIMITED), day.tallies(FIXED), day.tallies(CONTROLLER))
    response = packaged_response()
    if response is not None and is_comparable(day.scenario, response):
        ran = day.runs[CONTROLLER]
        copied = median(phase.copied_bytes for phase in ran)
        found.append(judge_simulated(day.scenario, response, median(p.copying_s for p in ran), copied, len(ran)))
    floor = day.scenario.floor
    found += [judge_cut(_granted_to_copy(phase), phase.cut, floor) for phase in day.runs.get(CUT, ())]
    for phase in day.runs.get(DEATH, ()):
        record_bytes = phase.copied_bytes / max(1, phase.status["progress"]["records"])
        found.append(judge_death(phase.landed, phase.dead, _granted_to_copy(phase), record_bytes, floor))
    longest_s = max(phase.lasted_s for kind in day.runs.values() for phase in kind)
    quiet_s = sum(phase.lasted_s for phase in day.quiet)
    found.append(
        Verdict(
            quiet_s >= longest_s,
            f"{quiet_s:.0f} s without a replay were measured; the longest run took {longest_s:.0f} s",
        )
    )
    counts = {phase.status["progress"]["records"] for kind in day.runs.values() for phase in kind}
    found.append(Verdict(len(counts) == 1, f"all runs copied and proved the same {max(counts):,} records"))
    return found


def _granted_to_copy(phase: Phase) -> list[tuple[float, float]]:
    """(time, bytes/s). What is granted to the proof says nothing of whether the copy came back."""
    until_s = math.inf if phase.proof_from_s is None else phase.proof_from_s
    return [(poll.at_s, poll.granted) for poll in phase.polls if poll.granted is not None and poll.at_s < until_s]

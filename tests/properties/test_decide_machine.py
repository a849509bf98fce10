"""Random lives of recoveries: commands, time, crashes and false reports in any order. The invariants are checked after
every step.

Terminal states are never left, no attempt is launched twice, every control record has exactly one answer, moves follow
the table, a paused recovery copies nothing, completeness adds up, no recovery goes back to copying once its copy is
over, effects are bounded, and the same input gives the same output.
"""

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from recoveryd.kernel.events import BecameLeader, Tick
from recoveryd.kernel.states import TERMINAL, State
from recoveryd.live.events import OffsetsSampled
from recoveryd.recovery.events import AttemptExited, EffectFailed, LedgerRead, TargetReady
from recoveryd.recovery.lifecycle import is_reusable
from recoveryd.recovery.model import Wanted
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import CaughtUp, Latest, Limits
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat, Verification
from tests.builders.core import command, make_facts, make_spec, make_verification
from tests.builders.deciding import make_decider
from tests.builders.world import PARAMS, World, illegal_moves
from tests.properties.test_recoveries import assert_is_what_a_scan_finds

IDS = st.sampled_from(["r1", "r2"])
ERRORS = st.sampled_from(["data_lost", "target_unavailable", "internal", "fenced", "nonsense"])


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(make_facts((30, 20)), speed=4)
        self.offset = 0
        self.ended: dict[str, tuple[State, int]] = {}

    def send(self, verb: str, subject: str, **more: object) -> None:
        self.world.feed(command(verb, subject, f"c{self.offset}", offset=self.offset, **more))
        self.offset += 1

    @rule(
        subject=IDS,
        follow=st.booleans(),
        dry_run=st.booleans(),
        verify=st.sampled_from(["source", "digest", "none"]),
        cap=st.sampled_from([None, 4_000]),
    )
    def replay(self, subject: str, follow: bool, dry_run: bool, verify: str, cap: int | None) -> None:
        stop = CaughtUp() if follow else Latest()
        known = self.world.state.of(RECOVERY).recoveries.get(subject)
        if known is not None and is_reusable(known):
            self.ended.pop(subject, None)
        self.send(
            "replay",
            subject,
            spec=make_spec(stop=stop, dry_run=dry_run, verify=verify, limits=Limits(max_runtime_ms=cap)),
        )

    @rule(subject=IDS, dry_run=st.booleans(), cap=st.sampled_from([None, 4_000]))
    def verify(self, subject: str, dry_run: bool, cap: int | None) -> None:
        known = self.world.state.of(RECOVERY).recoveries.get(subject)
        if known is not None and is_reusable(known):
            self.ended.pop(subject, None)
        self.send("verify", subject, spec=make_verification(dry_run=dry_run, limits=Limits(max_runtime_ms=cap)))

    @rule(seconds=st.integers(0, 15), differs=st.booleans())
    def verifications_take(self, seconds: int, differs: bool) -> None:
        self.world.verify_s = seconds
        self.world.verdict = Verification("mismatch", 50, 49, "d") if differs else None

    @rule(verb=st.sampled_from(["pause", "resume", "stop", "throttle", "approve", "reject"]), subject=IDS)
    def steer(self, verb: str, subject: str) -> None:
        self.send(verb, subject, max_bytes_per_s=1000.0, plan_hash="x")

    @rule(seconds=st.integers(1, 20))
    def time_passes(self, seconds: int) -> None:
        self.world.second(seconds)

    @rule(applications_die=st.booleans())
    def daemon_restarts(self, applications_die: bool) -> None:
        self.world.restart_daemon(applications_die=applications_die)

    @rule(lost=st.booleans())
    def effects_are_lost(self, lost: bool) -> None:
        self.world.lost_effects = lost

    @rule(kinds=st.sets(st.sampled_from(["GatherFacts", "CreateTarget", "LaunchAttempt", "ReadLedger"])))
    def effects_fail(self, kinds: set[str]) -> None:
        self.world.failing = kinds

    @rule(subject=IDS, silent=st.booleans(), alive=st.booleans())
    def application_suffers(self, subject: str, silent: bool, alive: bool) -> None:
        app = self.world.applications.get(subject)
        if app is not None:
            app.silent, app.alive = silent, app.alive and alive

    @rule(subject=IDS, code=ERRORS, attempt=st.integers(0, 3))
    def driver_fails(self, subject: str, code: str, attempt: int) -> None:
        self.world.feed(DriverHeartbeat(subject, attempt, "failed", 1, None, code, "it broke"))

    @rule(subject=st.sampled_from(["r1", "r2", "unknown"]), attempt=st.integers(0, 3), kind=st.integers(0, 5))
    def stray_event(self, subject: str, attempt: int, kind: int) -> None:
        self.world.feed(
            [
                AttemptExited(subject, attempt, 1, "gone"),
                LedgerRead(subject, attempt, False, (), ("gap",), 0),
                LaneHeartbeat(subject, attempt, 7, 0, "copying", True, 0.0, 0.0, (), ""),
                EffectFailed(subject, "read_ledger", attempt, "RCV-2011", "no", True),
                TargetReady(subject, "id", 2),
                OffsetsSampled((), (("main", "other"),)),
            ][kind]
        )

    @precondition(lambda self: self.offset > 0)
    @rule()
    def same_input_gives_same_output(self) -> None:
        world = self.world
        for event in (Tick(), BecameLeader(9, "control")):
            assert make_decider(PARAMS).decide(world.state, event, world.now_ms) == world.decider.decide(
                world.state, event, world.now_ms
            )

    @invariant()
    def moves_follow_the_table(self) -> None:
        assert illegal_moves(self.world) == []

    @invariant()
    def kept_parts_and_totals_are_what_a_scan_finds(self) -> None:
        assert_is_what_a_scan_finds(self.world.state.of(RECOVERY).recoveries)
        assert self.world.state.of(RECOVERY).observed.keys() <= self.world.state.of(RECOVERY).recoveries.live.keys()

    @invariant()
    def terminal_states_absorb(self) -> None:
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            before = self.ended.get(recovery.id)
            assert before is None or before[0] is recovery.state
            if recovery.state in TERMINAL:
                self.ended[recovery.id] = (recovery.state, recovery.version)

    @invariant()
    def no_attempt_is_launched_twice(self) -> None:
        assert [n for n in Counter(self.world.launches).values() if n > 1] == []

    @invariant()
    def answers_are_exactly_one_per_record(self) -> None:
        answered = Counter(a.control_offset for a in self.world.answers)
        waiting = {r.control_offset for r in self.world.state.of(RECOVERY).recoveries.values() if not r.answered}
        assert set(answered) | waiting >= set(range(self.offset))
        assert max(answered.values(), default=1) == 1

    @invariant()
    def completeness_adds_up_at_the_end(self) -> None:
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            if recovery.state is State.COMPLETED:
                assert [r.unexplained for r in recovery.completeness] == ([0, 0] if recovery.spec.copies else [])
            if recovery.state in TERMINAL:
                assert all(r.unexplained == 0 for r in recovery.completeness)

    @invariant()
    def a_paused_recovery_holds_its_exact_position(self) -> None:
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            if recovery.state is State.PAUSED and recovery.spec.copies:
                truth = self.world.receipts.get(recovery.id, {p.partition: p.start for p in recovery.plan.partitions})
                assert {p.partition: p.position for p in recovery.progress.partitions} == truth

    @invariant()
    def what_is_only_verified_never_tells_lanes_to_copy(self) -> None:
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            if recovery.is_proving:
                assert recovery.wanted is not Wanted.RUN
                assert recovery.state is not State.RUNNING
            assert (recovery.state is State.VERIFYING) <= recovery.is_proving
            assert recovery.kind == recovery.spec.kind

    @invariant()
    def a_replay_with_differences_is_never_completed_and_a_verification_is(self) -> None:
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            if recovery.verification is not None and recovery.verification.result == "mismatch":
                assert recovery.state is (State.FAILED if recovery.spec.copies else State.COMPLETED)
                assert recovery.error_code == "RCV-3007"

    @invariant()
    def an_unfinished_recovery_never_waits_for_nothing(self) -> None:
        for recovery in self.world.state.of(RECOVERY).recoveries.values():
            assert recovery.state is not State.REQUESTED

    def teardown(self) -> None:
        """Liveness: once all faults are over, a stop ends every recovery."""
        self.world.failing, self.world.lost_effects = set(), False
        for app in self.world.applications.values():
            app.silent = False
        for recovery in list(self.world.state.of(RECOVERY).recoveries.values()):
            if recovery.state not in TERMINAL:
                self.send("stop", recovery.id)
        self.world.second(200)
        left = {
            r.id: (r.state, r.why)
            for r in self.world.state.of(RECOVERY).recoveries.values()
            if r.state not in {*TERMINAL, State.PLANNED}
        }
        assert left == {}


Lives.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestLives = Lives.TestCase

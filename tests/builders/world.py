"""A simulated world around the pure core: virtual time, effects carried out in memory, lanes that copy.

It knows what really happened (the receipts), so that tests can compare it with what the core says. Every step is
deterministic. A test can switch on faults: applications that die, effects that fail, daemons that restart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from recoveryd.holds.draft import HOLDS
from recoveryd.kernel.decision import Answer, Decision, Notice
from recoveryd.kernel.effects import Effect
from recoveryd.kernel.events import BecameLeader, ControlRead, Event, Tick
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.recovery.effects import (
    CreateTarget,
    GatherFacts,
    KillAttempt,
    LaunchAttempt,
    ReadLedger,
    SetQuota,
    SweepQuotas,
)
from recoveryd.recovery.events import (
    AttemptExited,
    EffectFailed,
    FactsGathered,
    LedgerPartition,
    LedgerRead,
    QuotaSet,
    QuotasSwept,
    TargetReady,
)
from recoveryd.recovery.lifecycle import MOVES
from recoveryd.recovery.model import Allowance, Recovery
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.slice import RECOVERY
from recoveryd.wire.event_kinds import EVENT_KINDS
from recoveryd.wire.status_topic import encode_daemon
from recoveryd_jobs.contract import Directive, DriverHeartbeat, LaneHeartbeat, LanePosition, Verification
from tests.builders.core import NOW_MS, SOURCE_ID, STATUS, TARGET_ID, make_facts
from tests.builders.deciding import make_decider

PARAMS = Params(
    adopt_wait_ms=3_000,
    heartbeat_timeout_ms=5_000,
    launch_timeout_ms=10_000,
    drain_timeout_ms=10_000,
    caught_up_span_ms=10_000,
)


def check_fields(notices: Sequence[Notice]) -> None:
    """Every event has the fields that are documented as always there."""
    for notice in notices:
        assert set(EVENT_KINDS[notice.type].fields) <= notice.data.keys(), notice


@dataclass
class Application:
    """A running attempt. `speed` records are made durable per partition and second; a verification needs `to_read`
    seconds of reading, which count only while it may read.
    """

    recovery: str
    attempt: int
    lanes: tuple[tuple[int, ...], ...]
    stops: dict[int, int | None]
    directive: Directive | None = None
    phase: str = "lanes"
    verification: Verification | None = None
    to_read: int = 0
    left_to_read: int = 0
    alive: bool = True
    silent: bool = False
    allowances: tuple[Allowance, ...] = ()
    frozen: set[int] = field(default_factory=set)  # lanes that neither copy nor send heartbeats
    frozen_tasks: set[int] = field(default_factory=set)  # of the verification
    stuck: set[int] = field(default_factory=set)  # lanes that repeat their last heartbeat and do not copy
    busy: dict[int, int] = field(default_factory=dict)  # lanes in a slow commit, by the directive they last looked at
    ended: set[int] = field(default_factory=set)  # lanes that were told to return, and did
    returned: set[int] = field(default_factory=set)  # lanes that sent their last heartbeat


class World:
    """Drives a `Decider`; `history` keeps every decision, `states` each state a recovery was ever in."""

    def __init__(self, facts: PlanFacts | None = None, params: Params = PARAMS, *, speed: int = 20) -> None:
        self.params = params
        self.decider = make_decider(params)
        self.state = CoreState()
        self.now_ms = NOW_MS
        self.facts = facts or make_facts()
        self.speed = speed
        self.ends = dict(self.facts.source.ends) if self.facts.source else {}
        self.sees_source = True
        self.leaders: dict[int, int] = {}  # broker of each partition, of source and target alike; empty = not told
        self.log_starts = dict.fromkeys(self.ends, 0)
        self.live_per_s = 0
        self.target_partitions = 0  # partition count in samples of the target, 0 = it is not sampled
        self.verify_s = 0  # how long a verification reads
        self.verdict: Verification | None = None  # of every verification, None = a match
        self.receipts: dict[str, dict[int, int]] = {}  # durable positions, the truth
        self.applications: dict[str, Application] = {}
        self.answers: list[Answer] = []
        self.notices: list[Notice] = []
        self.directives: list[Directive] = []
        self.launches: list[tuple[str, int]] = []
        self.failing: set[str] = set()  # kinds of effects that fail
        self.quotas: dict[str, float] = {}  # as the brokers hold them
        self.quota_history: list[tuple[int, float | None]] = []
        self.quota_refusal = ""
        self.lost_effects = False  # effects are journaled but the daemon dies before running them
        self.moves: list[tuple[str, State, State]] = []
        self.event_times: dict[
            int, Callable[[int], int | None]
        ] = {}  # by partition: time of the record before an offset
        self.epoch = 0
        self.feed(BecameLeader(1, "control"))

    def recovery(self, recovery_id: str = "r1") -> Recovery:
        return self.state.of(RECOVERY).recoveries[recovery_id]

    def feed(self, event: Event) -> Decision:
        """One event through the core; its effects run at once and their results follow."""
        before = self.state
        decision = self.decider.decide(before, event, self.now_ms)
        self._note(before, decision)
        self.state = decision.state
        for directive in decision.directives:
            app = self.applications.get(directive.recovery)
            if app is not None and app.attempt <= directive.attempt:
                app.directive = directive
        results = [] if self.lost_effects else [r for e in decision.effects for r in self._run(e)]
        for result in results:
            self.feed(result)
        return decision

    def _note(self, before: CoreState, decision: Decision) -> None:
        self.answers += decision.answers
        self.notices += decision.notices
        check_fields(decision.notices)
        self.directives += decision.directives
        for recovery in (noun for noun in decision.changed if isinstance(noun, Recovery)):
            old = before.of(RECOVERY).recoveries.get(recovery.id)
            same_life = old is not None and old.control_offset == recovery.control_offset
            if same_life and old.state is not recovery.state:
                self.moves.append((recovery.id, old.state, recovery.state))

    def _run(self, effect: Effect) -> list[Event]:
        kind = type(effect).__name__
        if kind in self.failing and not isinstance(effect, KillAttempt):
            return [_failed(effect)]
        if isinstance(effect, GatherFacts):
            return [FactsGathered(effect.recovery, self.facts, effect.version)]
        if isinstance(effect, CreateTarget):
            return [TargetReady(effect.recovery, TARGET_ID, effect.partitions)]
        if isinstance(effect, LaunchAttempt):
            self._launch(effect)
        elif isinstance(effect, KillAttempt):
            self._kill(effect)
        elif isinstance(effect, ReadLedger):
            return [self._ledger(effect)]
        elif isinstance(effect, SetQuota | SweepQuotas):
            return [self._set_quota(effect) if isinstance(effect, SetQuota) else self._sweep(effect)]
        return []

    def _launch(self, effect: LaunchAttempt) -> None:
        self.launches.append((effect.recovery, effect.attempt))
        stops = {p.partition: p.stop for p in effect.plan.partitions}
        app = Application(effect.recovery, effect.attempt, effect.plan.lanes, stops, effect.directive)
        app.allowances = effect.allowances
        self.applications[effect.recovery] = app
        if not effect.spec.copies:
            self._begin_to_read(app)
            return
        durable = self.receipts.setdefault(effect.recovery, {})
        for planned in effect.plan.partitions:
            durable.setdefault(planned.partition, planned.start)

    def _kill(self, effect: KillAttempt) -> None:
        app = self.applications.get(effect.recovery)
        if app is not None and app.attempt == effect.attempt:
            app.alive = False

    def _set_quota(self, effect: SetQuota) -> QuotaSet | EffectFailed:
        if self.quota_refusal:
            return EffectFailed(effect.recovery, "set_quota", 0, "RCV-2012", self.quota_refusal, False)
        self.quota_history.append((self.now_ms, effect.bytes_per_s))
        self.quotas.pop(effect.recovery, None)
        if effect.bytes_per_s is not None:
            self.quotas[effect.recovery] = effect.bytes_per_s
        return QuotaSet(effect.recovery, effect.bytes_per_s)

    def _sweep(self, effect: SweepQuotas) -> QuotasSwept:
        if self.quota_refusal:
            return QuotasSwept(effect.cluster, refused=self.quota_refusal)
        removed = tuple(r for r in self.quotas if r not in effect.keep)
        self.quotas = {r: rate for r, rate in self.quotas.items() if r in effect.keep}
        return QuotasSwept(effect.cluster, tuple(self.quotas.items()), removed)

    def _ledger(self, effect: ReadLedger) -> LedgerRead:
        if effect.fence:
            self._kill(KillAttempt(effect.recovery, effect.attempt))
        durable = self.receipts.get(effect.recovery, {})
        rows = tuple(
            LedgerPartition(p.partition, p.start, at, at - p.start, 0, 0, 0, (at - p.start) * 100)
            for p in effect.plan.partitions
            for at in [durable.get(p.partition, p.start)]
        )
        return LedgerRead(effect.recovery, effect.attempt, effect.fence, rows, (), effect.sequence)

    def second(self, seconds: int = 1) -> None:
        """Let time pass: lanes copy and send heartbeats, offsets are sampled, the daemon ticks."""
        for _ in range(seconds):
            self.now_ms += 1_000
            for partition in self.ends:
                self.ends[partition] += self.live_per_s
            for app in list(self.applications.values()):
                if app.alive:
                    self._work(app)
            if self.sees_source and (self.now_ms // 1_000) % 5 == 0:
                self.feed(self.sample())
            self.feed(Tick())

    def sample(self) -> OffsetsSampled:
        ends = dict(self.ends)
        source = TopicSample(
            "main",
            "flights",
            SOURCE_ID,
            dict(self.log_starts),
            ends,
            ends,
            self.now_ms,
            len(ends),
            leaders=self.leaders,
        )
        width = self.target_partitions
        target = TopicSample("main", "flights.v2", TARGET_ID, {}, {}, {}, self.now_ms, width, leaders=self.leaders)
        return OffsetsSampled((source, target) if width else (source,))

    def _work(self, app: Application) -> None:
        wanted = app.directive.wanted if app.directive else "run"
        if wanted == "exit":
            app.alive = False
            self.feed(AttemptExited(app.recovery, app.attempt, 0, ""))
            return
        if app.phase == "lanes":
            if wanted == "run":
                self._copy(app)
            states = {lane: self._lane_state(app, lane, wanted) for lane in range(len(app.lanes))}
            app.ended |= {lane for lane in states if wanted in {"stop", "verify"} and states[lane] == "done"}
            if all(s == "done" for s in states.values()):
                app.phase = "drained"
            if not app.silent:
                for lane in states.keys() - app.frozen - app.returned:
                    self.feed(self._heartbeat(app, lane, states[lane]))
                    app.returned |= {lane} if states[lane] == "done" else set()
        if app.phase == "drained" and wanted == "verify":
            self._begin_to_read(app)
        if app.phase == "verifying":
            self._read(app, wanted)
        if not app.silent:
            self.feed(
                DriverHeartbeat(
                    app.recovery,
                    app.attempt,
                    app.phase,
                    app.directive.sequence if app.directive else 0,
                    app.verification,
                )
            )

    def _begin_to_read(self, app: Application) -> None:
        app.phase, app.to_read, app.left_to_read = "verifying", self.verify_s, self.verify_s

    def _read(self, app: Application, wanted: str) -> None:
        """One second of both tasks of a verification; a stopped one gives no verdict."""
        if wanted == "verify":
            app.left_to_read = max(0, app.left_to_read - 1)
        is_done = app.left_to_read == 0 and wanted == "verify" and not app.frozen_tasks
        if app.to_read and not app.silent:
            state = "done" if is_done else {"verify": "verifying", "pause": "paused"}.get(wanted, "done")
            for task in {0, 1} - app.frozen_tasks:
                self.feed(self._reader(app, task, state))
        if is_done:
            copied = sum(self.receipts.get(app.recovery, {}).values())
            app.phase, app.verification = "verified", self.verdict or Verification("match", copied, copied, "d")
        elif wanted == "stop":
            app.phase = "drained"

    def _reader(self, app: Application, task: int, state: str) -> LaneHeartbeat:
        sequence = app.directive.sequence if app.directive else 0
        rate, read = 10.0 if state == "verifying" else 0.0, 10 * (app.to_read - app.left_to_read)
        return LaneHeartbeat(
            app.recovery, app.attempt, task, sequence, state, False, rate, rate * 100, (), "", phase="verify",
            verified_records=read, verified_bytes=read * 100, verified_offsets=read, offsets_to_verify=10 * app.to_read,
        )  # fmt: skip

    def _copy(self, app: Application) -> None:
        durable = self.receipts[app.recovery]
        for number, lane in enumerate(app.lanes):
            for partition in lane if number not in app.frozen | app.stuck | app.ended | app.busy.keys() else ():
                stop = app.stops[partition]
                end = self.ends[partition] if stop is None else stop
                most = min(self.speed, self._room(app, number))
                durable[partition] = max(durable[partition], min(end, durable[partition] + most))

    def _room(self, app: Application, lane: int) -> int:
        """How many records of 100 bytes the lane may still copy; as in real lanes, the record that reaches the cap in
        bytes is the last.
        """
        if lane >= len(app.allowances):
            return self.speed
        starts = {p.partition: p.start for p in self.recovery(app.recovery).plan.partitions}
        copied = sum(self.receipts[app.recovery][p] - starts[p] for p in app.lanes[lane])
        allowed = app.allowances[lane]
        records = self.speed if allowed.records is None else allowed.records - copied
        return max(0, min(records, self.speed if allowed.bytes is None else -(-allowed.bytes // 100) - copied))

    def _lane_state(self, app: Application, lane: int, wanted: str) -> str:
        if lane in app.busy:
            return "copying"
        if lane in app.ended or wanted in {"stop", "verify"}:
            return "done"
        durable = self.receipts[app.recovery]
        if all(app.stops[p] is not None and durable[p] >= app.stops[p] for p in app.lanes[lane]):
            return "done"
        if wanted != "pause" and self._room(app, lane) == 0:
            return "done"
        return "paused" if wanted == "pause" else "copying"

    def _heartbeat(self, app: Application, lane: int, state: str) -> LaneHeartbeat:
        positions = tuple(self._position(app, p, state) for p in app.lanes[lane])
        sequence = app.busy.get(lane, app.directive.sequence if app.directive else 0)
        rate = float(self.speed) if state == "copying" else 0.0
        return LaneHeartbeat(app.recovery, app.attempt, lane, sequence, state, False, rate, rate * 100, positions, "")

    def _position(self, app: Application, partition: int, state: str) -> LanePosition:
        at = self.receipts[app.recovery][partition]
        start = next(p.start for p in self.recovery(app.recovery).plan.partitions if p.partition == partition)
        event_ms = self.event_times.get(partition, lambda _at: None)(at) if at > start else None
        return LanePosition(
            partition, at, app.stops[partition], state, at - start, 0, 0, 0, (at - start) * 100, event_ms
        )

    def restart_daemon(self, *, applications_die: bool = False, unread: Callable[[], object] | None = None) -> None:
        """Restart with only what the status topic holds: journaled records are read back from their bytes, all else is
        gone. `unread` sends what came meanwhile, which the new daemon takes some time to read.
        """
        if applications_die:
            for app in self.applications.values():
                app.alive = False
        self.lost_effects = False
        self.epoch += 1
        known = {**self.state.of(RECOVERY).recoveries, **{hold.id: hold for hold in self.state.of(HOLDS)}}
        folded = STATUS.fold([encode_daemon(self.state.daemon), *map(STATUS.encode, known.values())])
        assert folded.nouns == known, "a restart forgets something"
        self.state = self.decider.restore(folded.daemon, folded.nouns, {})
        self.feed(BecameLeader(self.epoch + 1, "control", reads_control=unread is not None))
        if unread is not None:
            self.second(10)
            unread()
            self.feed(ControlRead())

    def run_until(self, *states: State, recovery_id: str = "r1", seconds: int = 300) -> Recovery:
        for _ in range(seconds):
            if self.recovery(recovery_id).state in states:
                return self.recovery(recovery_id)
            self.second()
        raise AssertionError(
            f"{recovery_id} is {self.recovery(recovery_id).state} after {seconds} s: {self.recovery(recovery_id).why}"
        )


def _failed(effect: Effect) -> EffectFailed:
    names = {
        "GatherFacts": "gather_facts",
        "CreateTarget": "create_target",
        "LaunchAttempt": "launch",
        "ReadLedger": "read_ledger",
        "SetQuota": "set_quota",
        "SweepQuotas": "sweep_quotas",
    }
    return EffectFailed(
        getattr(effect, "recovery", ""),
        names[type(effect).__name__],
        getattr(effect, "attempt", 0),
        "RCV-2011",
        "no answer",
        True,
        version=getattr(effect, "version", None),
    )  # type: ignore[union-attr]


def illegal_moves(world: World) -> list[tuple[str, State, State]]:
    """Journaled state changes that no path of the table explains (several steps may happen in one decision)."""
    return [m for m in world.moves if m[2] not in reachable(m[1])]


def reachable(state: State) -> set[State]:
    """Every state that some moves of the table lead to."""
    found, open_states = set(), [state]
    while open_states:
        for following in MOVES[open_states.pop()]:
            if following not in found:
                found.add(following)
                open_states.append(following)
    return found

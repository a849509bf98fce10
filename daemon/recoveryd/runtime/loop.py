"""The one writer: takes waiting events, decides, journals, adopts the new state, then acts. Always in this order.

Nothing is done only because the group says that this daemon leads. A new leader opens the journal, which fences the
last one; after a rebalance it writes to the journal first; and if another daemon took over meanwhile, the next commit
raises `Fenced`, which leaves `run` before any effect of that round.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

import structlog

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.errors import Fenced, RecoverydError
from recoveryd.failpoints import hit
from recoveryd.kernel.decision import Decision, Noun
from recoveryd.kernel.effects import Effect, WakeAt
from recoveryd.kernel.events import BecameLeader, ControlUnread, Event, Leaving
from recoveryd.kernel.state import CoreState, DaemonRecord
from recoveryd.metrics.book import MetricsBook
from recoveryd.metrics.definitions import JOURNAL_COMMIT_SECONDS
from recoveryd.ports import Clock, Clusters, Journal, JournalBatch
from recoveryd.runtime.cut_back import find_cut, leave_if_cut
from recoveryd.runtime.freezes import LEAST_GAP_S, FreezeGuard
from recoveryd.runtime.inbox import Inbox, Item, without_hints, without_read
from recoveryd.runtime.intake import ControlIntake
from recoveryd.runtime.reporting import Reporter
from recoveryd.runtime.rounds import Rounds
from recoveryd.runtime.seen import SeenLedger, known_of
from recoveryd.runtime.ticker import Ticker
from recoveryd.runtime.vitals import Vitals

log = structlog.stdlib.get_logger(__name__)
T = TypeVar("T")

ROUND_AT_MOST = 512
IDLE_S = 1.0
# Signals cost no transaction, so the applied offset is journaled late: after a restart at most this many are read
# again, or those of this time.
COVER_EVERY_RECORDS = 5_000
COVER_EVERY_S = 60.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.2, 5.0
SLOW_ROUND_S = 2.0
# Some sessions long: a daemon that is about to end may be given the partition once more.
REPLACED_AFTER_S = 60.0


class Stopping(Exception):  # noqa: N818  (not an error: it ends the waiting for another try)
    """The daemon was asked to stop."""


class NotOurs(Exception):  # noqa: N818  (not an error either)
    """The partition was taken away before this daemon led: to try again would only shut out whoever leads."""


class Core(Protocol):
    """What decides: `recoveryd.kernel.decide.Decider` over the capabilities of this daemon."""

    def decide(self, state: CoreState, event: Event, now_ms: int) -> Decision: ...

    def restore(self, daemon: DaemonRecord, nouns: Mapping[str, Noun], sequences: Mapping[str, int]) -> CoreState: ...

    def known(self, state: CoreState) -> Mapping[str, Noun]: ...

    def is_active(self, state: CoreState) -> bool: ...


def _nothing_stands() -> Sequence[Event]:
    return ()


def _tell_nobody(_decision: Decision) -> None:
    return


class EffectRunner(Protocol):
    def start(self, effect: Effect) -> None:
        """Begin the effect and return at once; its result comes back as an event."""
        ...


class Runtime:
    """`assigned`, `revoked`, `passed_over` and `expelled` tell what the group says, `run` is the loop, `stop` ends it
    after the present round.

    A process that was frozen, as `freezes` knows, may have been replaced: it writes to the journal before it goes on,
    and effects that are journaled already wait for that. Where nothing was decided for longer than `deaf_s`, because
    the journal could not be written, the process was frozen or its partition was away, the leader begins anew, as after
    a restart: what it waited for came meanwhile, and it has not heard it yet. It is no shorter than LEAST_GAP_S.

    `when_leading` is called once, when this daemon first leads: it starts what only a leader needs. `tell` is given
    each decision once it is journaled, and raises nothing. `standing` gives the events about the config that stand for
    a new leader too.
    """

    def __init__(
        self,
        *,
        core: Core,
        journal: Journal,
        clusters: Clusters,
        when_leading: Callable[[], Awaitable[None]],
        effects: EffectRunner,
        inbox: Inbox,
        intake: ControlIntake,
        clock: Clock,
        metrics: Metrics,
        book: MetricsBook,
        freezes: FreezeGuard,
        deaf_s: float = 15.0,
        tell: Callable[[Decision], None] = _tell_nobody,
        standing: Callable[[], Sequence[Event]] = _nothing_stands,
    ) -> None:
        self.state = CoreState()
        self.vitals = Vitals()
        self.ticker = Ticker(clock, inbox.emit, self._is_active, self._is_leader)
        self._core = core
        self._journal = journal
        self._clusters = clusters
        self._when_leading = when_leading
        self._effects = effects
        self._inbox = inbox
        self._intake = intake
        self._clock = clock
        self._metrics = metrics
        self._reporter = Reporter(metrics, book)
        self._tell = tell
        self._standing = standing
        self._rounds = Rounds(core.decide, clock.monotonic_s)
        self._seen = SeenLedger()
        self._covered = -1
        self._take_overs = 0
        self._is_leaving = False
        self._freezes = freezes
        self._held_back: list[Effect] = []
        self._journaled_s = self._could_decide_s = clock.monotonic_s()
        self._deaf_s = max(deaf_s, LEAST_GAP_S)
        self._last_write_took_s = 0.0
        # Where the writes of a new epoch take as long again, a round comes first, or nothing would ever be decided.
        self._owes_round = False
        self._is_ours = asyncio.Event()
        self._passed_over_s: float | None = None
        self._epoch_held = asyncio.Event()
        self._stop = asyncio.Event()

    @property
    def waits_for_journal(self) -> bool:
        """Whether the journal's broker answers slowly or not at all. If so, the lack of other answers from it means
        nothing.
        """
        vitals = self.vitals
        began_s = vitals.round_began_s
        is_slow = began_s is not None and self._clock.monotonic_s() - began_s > SLOW_ROUND_S
        return is_slow or vitals.journal_failing_s is not None or vitals.role == "taking_over"

    @property
    def is_passed_over(self) -> bool:
        """Whether another daemon has the control partition, after this one led."""
        return self._passed_over_s is not None

    def assigned(self) -> None:
        """The group gave us the control partition."""
        self._passed_over_s = None
        self._is_ours.set()

    def passed_over(self) -> None:
        """The group gave the control partition to another daemon. One that led until then ends if it stays so: what it
        knows is of before, and a restart makes it a standby that knows nothing.
        """
        if self.vitals.is_loaded and self._passed_over_s is None:
            self._passed_over_s = self._clock.monotonic_s()

    def revoked(self) -> None:
        """The group took the partition away, maybe for seconds only: keep the state, decide nothing, and write to the
        journal before going on.
        """
        self._is_ours.clear()
        self.vitals.role = "standby"

    async def expelled(self) -> None:
        """The group took this daemon for dead, because it was frozen or could not be heard: return when it may join
        again. If another daemon leads by now, that is never, since the write to the journal ends `run`; to join would
        only interrupt the other.
        """
        if self.vitals.is_loaded and self._is_ours.is_set():
            self.vitals.role = "taking_over"
            self._epoch_held.clear()
            self._inbox.nudge()
            await self._epoch_held.wait()

    def stop(self) -> None:
        """Let `run` return after the present round. Waiting control records stay unanswered and are read again by the
        next leader.
        """
        self._stop.set()
        self._inbox.nudge()

    async def run(self) -> None:
        """Run until `stop`. Raises `Fenced`, or another RecoverydError after which only a restart helps."""
        looking = asyncio.create_task(self._freezes.run())
        try:
            await self._run()
        finally:
            looking.cancel()

    async def _run(self) -> None:
        with contextlib.suppress(Stopping):
            while await self._leads():
                epoch, take_overs = self.state.daemon.epoch, self._take_overs
                items = await self._inbox.take(ROUND_AT_MOST, IDLE_S)
                # Check again: the partition may have been taken away while the inbox was empty.
                if (items or self._must_cover()) and await self._leads():
                    if self._take_overs != take_overs:
                        items = without_read(items)
                    if self.state.daemon.epoch != epoch:
                        items = without_hints(items)
                    await self._take_round(items)
                    leave_if_cut(items)

    async def _leads(self) -> bool:
        """Wait until this daemon leads; False = asked to stop."""
        self._check_freeze()
        while not self._stop.is_set():
            if not self._is_ours.is_set():
                self._check_replaced()
                await self._first_of(self._is_ours.wait(), IDLE_S)
            elif self.vitals.role != "leader":
                await self._take_over()
            elif by_ms := self._clock.set_by_ms():
                way = "forward" if by_ms > 0 else "back"
                await self._lead_anew(f"the clock of the daemon was set {way} by {abs(by_ms) / 1000:.0f} s")
            elif (deaf_s := self._clock.monotonic_s() - self._could_decide_s) > self._deaf_s and not self._owes_round:
                self._owes_round = True
                await self._lead_anew(self._why_deaf(deaf_s))
            else:
                self._could_decide_s, self._owes_round = self._clock.monotonic_s(), False
                return True
        return False

    def _why_deaf(self, deaf_s: float) -> str:
        if self._last_write_took_s > self._deaf_s:
            return f"the journal could not be written for {self._last_write_took_s:.0f} s"
        return f"it could decide nothing for {deaf_s:.0f} s"

    def _check_replaced(self) -> None:
        since_s = self._passed_over_s
        if since_s is not None and self._clock.monotonic_s() - since_s >= REPLACED_AFTER_S:
            raise Fenced("The group gave the control partition to another daemon.")

    def _check_freeze(self) -> None:
        if not self._freezes.may_act() and self.vitals.role == "leader":
            log.warning(
                "was frozen or starved, or its clock was set: asks the journal whether it still leads",
                for_s=round(self._freezes.for_s, 1),
            )
            self.vitals.role = "taking_over"

    async def _take_over(self) -> None:
        self.vitals.role = "taking_over"
        self._take_overs += 1
        said = ""
        if self.vitals.is_loaded:
            # Same daemon, same epoch: the state is right unless another daemon fenced us meanwhile, and only a write
            # shows that.
            await self._commit(JournalBatch(daemon=self.state.daemon))
            if not self._freezes.may_act():
                return  # it stood still once more, maybe behind the answer: written again by the next turn
            self._epoch_held.set()
            self._begin_effects()
            await self._read_on()
            said = "leads on, the epoch still holds"
        else:
            with contextlib.suppress(NotOurs):
                await self._load()
                said = "leads"
        if said and self._is_ours.is_set():
            if not self._freezes.may_act():
                return
            self.vitals.role = "leader"
            log.info(said, epoch=self.state.daemon.epoch, known=len(self._core.known(self.state)))
        else:
            self.vitals.role = "standby"
            log.info("lost the partition while taking over", epoch=self.state.daemon.epoch)

    async def _read_on(self) -> None:
        """Look for commands that were sent while this daemon did not lead. Until they were read, it acts as one that
        does not know them: an end of a schedule, a pause or a hold may be among them.
        """
        self._intake.look_again()
        self._inbox.drop_read()
        await self._take_round([Item(ControlUnread())])

    async def _lead_anew(self, why: str) -> None:
        """Begin a new epoch, with the time of a clock that was set. Ages and waits cannot be told across such a change,
        nor across a time in which nothing was decided, so they begin anew, as after a restart: running applications are
        adopted, and what was measured is measured again. The journal is not read, since it holds no more than this
        state. The role stays `taking_over`, for whoever waits for the epoch.
        """
        log.warning("leads anew", why=why)
        self.vitals.role = "taking_over"
        self._clock.adopt()
        self._held_back.clear()  # the new epoch asks for what is still wanted
        daemon = self.state.daemon
        self.state = self._core.restore(daemon, dict(self._core.known(self.state)), {})
        await self._begin_epoch(
            BecameLeader(daemon.epoch + 1, daemon.control_topic_id, why, self._is_leaving, reads_control=True)
        )
        self._inbox.drop_hints()

    async def _begin_epoch(self, *events: Event) -> None:
        self._could_decide_s = self._clock.monotonic_s()  # what is waited for begins with the epoch
        await self._take_round([*map(Item, self._standing()), *map(Item, events)])

    async def _load(self) -> None:
        """Raises `NotOurs` where the partition is taken away before the new epoch begins."""
        self._clock.adopt()
        folded = await self._retrying("open the journal", self._journal.open, while_ours=True)
        topic_id = await self._retrying("look up the control topic", self._clusters.control_topic_id, while_ours=True)
        is_same_topic = folded.daemon.control_topic_id in {"", topic_id}
        find = partial(find_cut, self._clusters.control_end, folded.daemon.applied_control_offset + 1)
        cut = await self._retrying("find the control topic's end", find, while_ours=True) if is_same_topic else ()
        self._seen = SeenLedger(known_of(folded) if is_same_topic else {})
        self.state = self._core.restore(folded.daemon, folded.nouns, folded.directive_sequences)
        await self._begin_epoch(BecameLeader(folded.daemon.epoch + 1, topic_id, reads_control=True), *cut)
        self._covered = self.state.daemon.applied_control_offset
        self.vitals.is_loaded = True
        # Not earlier: heartbeats would wait in a standby's inbox, and would then look new although they are old.
        await self._retrying("listen to the lanes", self._when_leading)
        self._intake.open_at(self._covered + 1)

    async def _take_round(self, items: Sequence[Item]) -> None:
        self.vitals.round_began_s = self._clock.monotonic_s()
        now_ms = self._clock.now_ms()
        taken = self._rounds.take(self.state, items, self._seen, self._covered, now_ms, must_cover=self._must_cover())
        if taken.batch is not None:
            await self._commit(taken.batch)
        self.state, self._covered = taken.state, taken.covered
        self._is_leaving = self._is_leaving or any(isinstance(item.event, Leaving) for item in items)
        for item in items:
            if item.done is not None and not item.done.done():
                item.done.set_result(None)
        hit("runtime.before_effects")
        self._held_back += taken.effects
        self._begin_effects()
        for step in taken.steps:
            self._tell(step.decision)
        self._reporter.report(taken, now_ms)
        self.vitals.round_began_s = None

    def _begin_effects(self) -> None:
        """Of rounds that the journal holds; those of a daemon that was frozen wait until it has written once more."""
        if self._freezes.may_act():
            effects, self._held_back = self._held_back, []
            for effect in effects:
                self._start(effect)

    def _start(self, effect: Effect) -> None:
        if isinstance(effect, WakeAt):
            self.ticker.wake_at(effect.at_ms)
        else:
            self._effects.start(effect)

    async def _commit(self, batch: JournalBatch) -> None:
        async def commit() -> None:
            freezes = self._freezes.look()
            started_s = self.vitals.try_began_s = self._clock.monotonic_s()
            try:
                await self._journal.commit(batch)
            finally:
                self.vitals.try_began_s = None
            self._freezes.wrote(freezes)
            self._metrics.observe(JOURNAL_COMMIT_SECONDS, self._clock.monotonic_s() - started_s)

        # The same batch again, not a new decision: after a commit of unknown outcome records may be repeated, but must
        # not contradict each other.
        began_s = self.vitals.write_began_s = self._clock.monotonic_s()
        try:
            await self._retrying("commit to the journal", commit)
        finally:
            self.vitals.write_began_s = None
        self._journaled_s = self._clock.monotonic_s()
        self._last_write_took_s = self._journaled_s - began_s

    async def _retrying(self, what: str, operation: Callable[[], Awaitable[T]], *, while_ours: bool = False) -> T:
        """Raises `NotOurs`, and keeps no result, if the partition is wanted and is taken away."""
        backoff_s = BACKOFF_FIRST_S
        while True:
            try:
                result = await operation()
            except Fenced:
                raise
            except RecoverydError as problem:
                if not problem.retriable:
                    raise
                self.vitals.journal_failing_s = self.vitals.journal_failing_s or self._clock.monotonic_s()
                log.warning("will try again", to=what, code=problem.code.value, error=problem.message, in_s=backoff_s)
            else:
                self.vitals.journal_failing_s = None
                if while_ours:
                    self._check_ours()
                return result
            if await self._first_of(self._stop.wait(), backoff_s):
                raise Stopping
            if while_ours:
                self._check_ours()
            backoff_s = min(BACKOFF_MAX_S, backoff_s * 2)

    def _check_ours(self) -> None:
        if not self._is_ours.is_set():
            self.vitals.journal_failing_s = None
            raise NotOurs

    async def _first_of(self, wait: Awaitable[object], timeout_s: float | None) -> bool:
        """Wait for `wait`, `stop` or the timeout, whichever is first; True if asked to stop."""
        tasks = [asyncio.ensure_future(wait), asyncio.ensure_future(self._stop.wait())]
        try:
            await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return self._stop.is_set()

    def _must_cover(self) -> bool:
        behind = self._covered - self.state.daemon.applied_control_offset
        is_late = self._clock.monotonic_s() - self._journaled_s >= COVER_EVERY_S
        return behind >= COVER_EVERY_RECORDS or (behind > 0 and is_late)

    def _is_active(self) -> bool:
        return self._is_leader() and self._core.is_active(self.state)

    def _is_leader(self) -> bool:
        return self.vitals.role == "leader"

"""Pausing and resuming, by an operator or by the daemon itself. Both drain the same way; `Recovery.held` says why the
daemon paused it.

An operator's pause has no `held` and only an operator ends it. A recovery held for `telemetry` goes on by itself once
live traffic is measured again, also after a restart. One held for `live_slo` waits for an operator: live traffic stayed
over its SLO although the replay was at its floor, so the replay is not the cause, or even its floor is too much. One
held for `topic_held` goes on by itself once nobody holds its topics (`recoveryd.recovery.holding`), one held for
`leaving` with the next leader: its daemon ended on purpose.
"""

from collections.abc import Mapping
from typing import Final, Literal

from recoveryd.kernel.draft import ALL_READ
from recoveryd.kernel.states import State
from recoveryd.recovery.attempts import release_application
from recoveryd.recovery.case import Case
from recoveryd.recovery.directing import want
from recoveryd.recovery.limits import at_floor_at_most
from recoveryd.recovery.model import WORKING, Recovery, Wanted

PauseReason = Literal["telemetry", "live_slo", "topic_held", "leaving"]
TELEMETRY: Final = "telemetry"
LIVE_SLO: Final = "live_slo"
TOPIC_HELD: Final = "topic_held"
LEAVING: Final = "leaving"


def goes_on(recovery: Recovery) -> bool:
    """Whether it goes on without a person."""
    if recovery.state is State.PAUSED:
        return recovery.held in {TELEMETRY, LEAVING}
    return not recovery.is_terminal and (recovery.state is not State.AWAITING_APPROVAL or bool(recovery.approved))


def begin_pause(case: Case, why: str, held: PauseReason | Literal[""] = "") -> None:
    """Ask the lanes to drain; `paused` follows once no chunk is open."""
    case.move(State.PAUSING, why, held=held)
    case.observe(ledger=None, ledger_wanted_ms=0, ledger_since_ms=0)
    want(case, Wanted.PAUSE, why)


def begin_resume(case: Case, why: str, *, is_granted: bool = False) -> None:
    """Go on at the exact positions, with the application that still runs or with the next one. A verification goes on
    too, but begins anew with the next application. `is_granted`: its rate is that of the present step of the
    controllers; one from before the pause says nothing of live traffic now, and others may have the budget since.
    """
    if not is_granted:
        case.draft.remember(at_floor_at_most(case.recovery, case.params))
    is_proving = case.recovery.is_proving
    to = State.STARTING if case.recovery.attempt.released else State.RUNNING
    case.move(State.VERIFYING if is_proving else to, why, held="", releases=False)
    case.observe(ledger=None, ledger_wanted_ms=0, ledger_since_ms=0, progress_ms=case.now_ms, candidate=None)
    want(case, Wanted.VERIFY if is_proving else Wanted.RUN, why)


def hold(case: Case, reason: PauseReason, why: str, evidence: Mapping[str, object]) -> None:
    """Pause it automatically, with an event that has the numbers behind it."""
    case.notice("auto_pause", {"reason": reason, "evidence": dict(evidence), "why": why})
    begin_pause(case, why, reason)


def paused_why(recovery: Recovery, held: str = "", *, is_unread: bool = False) -> str:
    """The sentence (`why`) of a paused recovery. `held` is the one of the hold that keeps it, if one does; `is_unread`:
    a command that keeps it may lie unread.
    """
    too = f" and {ALL_READ}" if is_unread else ""
    rest = "the verification reads nothing" if recovery.is_proving else "every position is in a receipt"
    if recovery.held == TELEMETRY:
        return f"paused by itself until live traffic is measured again{too}; {rest}"
    if recovery.held == LIVE_SLO:
        return f"paused by itself, live traffic stayed over its SLO: look at it, then resume; {rest}"
    if recovery.held == TOPIC_HELD:
        return f"paused until its topics are free{f': {held}' if held else too}; {rest}"
    if recovery.held == LEAVING:
        return f"rests until {ALL_READ if is_unread else 'a daemon runs again'}; {rest}"
    return f"paused: {rest}" if recovery.is_proving else f"paused: no chunk is open and {rest}"


def come_to_rest(case: Case) -> None:
    """Take the next step towards a daemon's end: hold what works, and let go the application of what is paused."""
    recovery = case.recovery
    if recovery.state in WORKING:
        anew = "; the proof then begins anew, and has to fit into one run" if recovery.is_proving else ""
        hold(case, LEAVING, f"the time of this daemon is over: rests until one runs again{anew}", {})
    elif recovery.state is State.PAUSED and not recovery.attempt.released:
        release_application(case, "the time of this daemon is over")

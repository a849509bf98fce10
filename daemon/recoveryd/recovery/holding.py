"""Held topics (`recoveryd.holds`): a recovery neither begins nor goes on to write where somebody holds the topic.

A command or a plan that would begin is refused at once, so that whoever sent it knows the hold, its owner and the
reason; nothing waits in silence for a release that may come in a week. A recovery that runs already pauses, drained,
and goes on by itself on release, but only if it was the hold that paused it. Steering looks at the holds themselves,
not at the command that changed them, so nothing depends on the order of the two, nor on a restart between. As long as
it is not known what was held while no daemon ran, nothing that pauses goes on to write.
"""

from typing import Final

from recoveryd.holds.draft import HoldDraft
from recoveryd.holds.held import refuse_held
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.recovery.attempts import may_be_held
from recoveryd.recovery.case import Case
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.model import RESTING, WORKING, Finding, Recovery, Severity
from recoveryd.recovery.pausing import LEAVING, TELEMETRY, TOPIC_HELD, begin_resume, hold, paused_why
from recoveryd.recovery.spec import Spec

_BY_ITSELF: Final = frozenset({TELEMETRY, TOPIC_HELD, LEAVING})  # what was paused for these goes on by itself


def held_from(draft: RecoveryDraft, spec: Spec) -> Refused | None:
    """The refusal that names the hold in the way of this specification, or None."""
    if not spec.copies:
        return None
    source, target = spec.source, spec.target
    holds = draft.draft.view(HoldDraft).holds
    return refuse_held(holds, [(target.cluster, target.topic)], [(source.cluster, source.topic)])


def held_now(case: Case) -> Refused | None:
    """The same for a recovery: none is in the way once nothing is left to copy."""
    recovery = case.recovery
    return None if recovery.is_proving else held_from(case.draft, recovery.spec)


def held_finding(draft: RecoveryDraft, spec: Spec) -> tuple[Finding, ...]:
    """For the plan of a dry run, which may be made while the topic is held."""
    held = held_from(draft, spec)
    return () if held is None else (Finding("topic_held", Severity.WARN, held.message),)


def obey_holds(case: Case) -> None:
    """Pause it if its topics are held, let it go on if they are free again and a hold had paused it."""
    recovery = case.recovery
    if recovery.state in WORKING:
        held = held_now(case)
        if held is not None:
            hold(case, TOPIC_HELD, f"paused by a hold: {held.message}", {"code": held.code.value})
    elif recovery.held == TOPIC_HELD and recovery.state in RESTING and _is_free(case):
        begin_resume(case, "goes on by itself: its topics are no longer held")
    elif recovery.held in _BY_ITSELF and recovery.state is State.PAUSED:
        _tell_why(case)


def _tell_why(case: Case) -> None:
    """Something else may keep it now. It rests as long as before: its application is kept for no longer by that."""
    why = why_it_rests(case, case.recovery)
    if why != case.recovery.why:
        case.journal(why=why, version=case.recovery.version + 1)


def _is_free(case: Case) -> bool:
    return held_now(case) is None and not may_be_held(case)


def go_on_after_rest(case: Case) -> None:
    """What an earlier daemon held because it ended."""
    is_at_rest = case.recovery.held == LEAVING and case.recovery.state in RESTING
    if is_at_rest and is_let_go(case):
        begin_resume(case, "a daemon runs again: goes on at its exact position")


def resume_once_known(case: Case, why: str) -> None:
    """Resume it, or let steering do so as soon as it is known that nobody holds its topics."""
    if not may_be_held(case):
        begin_resume(case, why)
    elif case.recovery.held != LEAVING:
        case.revise(held=TOPIC_HELD, why=why)


def is_let_go(case: Case) -> bool:
    """Of what the daemon itself had paused for another reason, which is over: whether it may go on. A hold that is
    there keeps it from now on.
    """
    return not may_be_held(case) and not _hand_to_hold(case)


def _hand_to_hold(case: Case) -> bool:
    """True if a hold is there."""
    held = held_now(case)
    if held is None:
        return False
    case.journal(held=TOPIC_HELD)
    is_paused = case.recovery.state is State.PAUSED
    case.revise(why=paused_why(case.recovery, held.message) if is_paused else f"paused by a hold: {held.message}")
    return True


def why_it_rests(case: Case, recovery: Recovery) -> str:
    """The sentence of a paused recovery, with the hold that keeps it, if one does."""
    held = held_now(case) if recovery.held == TOPIC_HELD else None
    is_for_next = recovery.held == LEAVING and case.draft.is_leaving
    return paused_why(recovery, held.message if held else "", is_unread=may_be_held(case) and not is_for_next)

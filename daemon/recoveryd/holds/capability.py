"""Holds as a capability: which commands and events they take. Others read their slice (`held`)."""

from collections.abc import Mapping

from recoveryd.holds.commands import on_hold, on_release, stop_hold
from recoveryd.holds.draft import HOLDS, HoldDraft
from recoveryd.holds.ending import expire
from recoveryd.holds.events import GroupSeen
from recoveryd.holds.known import Holds
from recoveryd.holds.looking import on_offsets_of_held
from recoveryd.holds.metrics import make_measures
from recoveryd.holds.model import KIND, Hold
from recoveryd.holds.obeying import on_group_seen, on_hold_signal
from recoveryd.holds.params import HoldParams
from recoveryd.holds.spec import Release, StartHold
from recoveryd.holds.wire.command import FORMS
from recoveryd.holds.wire.signal import SIGNALS
from recoveryd.holds.wire.status import HoldForm
from recoveryd.kernel.capability import Capability, StatusForm, Subject, begins, names, on, steers
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.events import BecameLeader, SignalReceived, Tick
from recoveryd.kernel.keeping import overdue_ids
from recoveryd.kernel.state import CoreState
from recoveryd.live.events import OffsetsSampled

NAME = "holds"
_FORM = HoldForm()
_TIME = (Tick, BecameLeader)


def make_holds(params: HoldParams) -> Capability[HoldDraft]:
    return Capability(
        name=NAME,
        view=HoldDraft,
        make_view=lambda draft: HoldDraft(draft, params),
        verbs=(begins(StartHold, on_hold), names(Release, on_release), steers(StopCommand, stop_hold)),
        events=(GroupSeen,),
        handlers=(
            on(OffsetsSampled, on_offsets_of_held),
            on(SignalReceived, on_hold_signal),
            on(GroupSeen, on_group_seen),
        ),
        forms=FORMS,
        signals=SIGNALS,
        steer=_steer,
        steers_after=_TIME,
        subject=_subject,
        status=StatusForm(Hold, lambda kind: kind == KIND, _FORM.write, _FORM.read),
        measures=make_measures(),
        restore=_restore,
        known=lambda state: state.of(HOLDS).by_id,
        is_active=lambda state: any(hold.expires_ms is not None for hold in state.of(HOLDS).live.values()),
    )


def _restore(state: CoreState, nouns: Mapping[str, Noun], _sequences: Mapping[str, int]) -> CoreState:
    return state.having(HOLDS, Holds.of(noun for noun in nouns.values() if isinstance(noun, Hold)))


def _subject(draft: HoldDraft, hold_id: str) -> Subject | None:
    hold = draft.holds.get(hold_id)
    return None if hold is None else Subject("hold", hold.state.value)


def _steer(draft: HoldDraft, event: object) -> None:
    if isinstance(event, _TIME):
        expire(draft)
        if gone := overdue_ids(draft, draft.holds.ended, draft.params):
            draft.forget_holds(gone)

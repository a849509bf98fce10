"""Watches as a capability: which commands and events they take."""

from collections import Counter
from collections.abc import Iterator, Mapping

from recoveryd.kernel.capability import Capability, StatusForm, Subject, begins, on, steers
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.events import BecameLeader, ControlRead, ControlUnread, Tick
from recoveryd.kernel.keeping import overdue_ids
from recoveryd.kernel.metrics import Measures, Sample, count_states
from recoveryd.kernel.state import CoreState
from recoveryd.live.events import OffsetsSampled, ReaderSampled
from recoveryd.units.params import with_units
from recoveryd.watches.commands import on_watch, stop_watch
from recoveryd.watches.draft import WATCHES, FindWorkflow, WatchDraft
from recoveryd.watches.ending import on_webhook_ended
from recoveryd.watches.events import UnitStopReported, WebhookEnded
from recoveryd.watches.known import Watches
from recoveryd.watches.looking import forget_looks, keep_time, on_offsets_of_watched, on_reader_sampled
from recoveryd.watches.model import KIND, Watch
from recoveryd.watches.params import WatchParams
from recoveryd.watches.spec import StartWatch
from recoveryd.watches.stopping import ask_anew, on_unit_stop_reported
from recoveryd.watches.wire.command import FORM
from recoveryd.watches.wire.status import WatchForm

NAME = "watches"
_FORM = WatchForm()
_TIME = (Tick, BecameLeader, ControlRead)


def make_watches(params: WatchParams, find_workflow: FindWorkflow) -> Capability[WatchDraft]:
    """`find_workflow`: who works on a group."""
    return Capability(
        name=NAME,
        view=WatchDraft,
        make_view=lambda draft: WatchDraft(draft, with_units(params, draft.before), find_workflow),
        events=(WebhookEnded, UnitStopReported),
        verbs=(begins(StartWatch, on_watch), steers(StopCommand, stop_watch)),
        handlers=(
            on(OffsetsSampled, on_offsets_of_watched),
            on(ReaderSampled, on_reader_sampled),
            on(WebhookEnded, on_webhook_ended),
            on(UnitStopReported, on_unit_stop_reported),
            on(BecameLeader, lambda draft, _: forget_looks(draft)),
            on(ControlUnread, lambda draft, _: ask_anew(draft)),
        ),
        forms={StartWatch.verb: FORM},
        steer=_steer,
        steers_after=_TIME,
        subject=_subject,
        status=StatusForm(Watch, lambda kind: kind == KIND, _FORM.write, _FORM.read),
        measures=Measures(gauges=lambda state, _now_ms: _count(state)),
        restore=_restore,
        known=lambda state: state.of(WATCHES).by_id,
        is_active=lambda state: bool(state.of(WATCHES).live),
        remaining=lambda state, _: tuple(state.of(WATCHES).live),
    )


def _restore(state: CoreState, nouns: Mapping[str, Noun], _sequences: Mapping[str, int]) -> CoreState:
    return state.having(WATCHES, Watches.of(noun for noun in nouns.values() if isinstance(noun, Watch)))


def _count(state: CoreState) -> Iterator[Sample]:
    return count_states([KIND], Counter((watch.kind, watch.state) for watch in state.of(WATCHES)))


def _subject(draft: WatchDraft, watch_id: str) -> Subject | None:
    watch = draft.watches.get(watch_id)
    return None if watch is None else Subject("watch", watch.state.value)


def _steer(draft: WatchDraft, event: object) -> None:
    if isinstance(event, _TIME):
        keep_time(draft)
        if gone := overdue_ids(draft, draft.watches.ended, draft.params):
            draft.forget_watches(gone)

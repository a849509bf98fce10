"""Schedules as a capability: which commands and events they take."""

from collections.abc import Mapping, Sequence
from typing import Any

from recoveryd.kernel.capability import Capability, StatusForm, Subject, begins, on, steers
from recoveryd.kernel.commands import Command, StopCommand
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.draft import Draft
from recoveryd.kernel.events import (
    BecameLeader,
    CommandNotSent,
    CommandReceived,
    ControlRead,
    Tick,
)
from recoveryd.kernel.keeping import overdue_ids
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import ENDED
from recoveryd.schedules.commands import end_schedule, on_schedule
from recoveryd.schedules.draft import SCHEDULES, ScheduleDraft
from recoveryd.schedules.firing import fire_what_is_due, has_work, look_at_clock
from recoveryd.schedules.following import ACCEPTED, follow, hear, on_not_sent
from recoveryd.schedules.known import Schedules
from recoveryd.schedules.metrics import make_measures
from recoveryd.schedules.model import KIND, Schedule
from recoveryd.schedules.params import ScheduleParams
from recoveryd.schedules.spec import EndSchedule, StartSchedule
from recoveryd.schedules.wire.command import NEVER_SENT, make_forms
from recoveryd.schedules.wire.status import ScheduleForm

NAME = "schedules"
_FORM = ScheduleForm()
_TIME = (Tick, BecameLeader, ControlRead)


def make_schedules(params: ScheduleParams, others: Sequence[Capability[Any]]) -> Capability[ScheduleDraft]:
    """It has to come after the `others`, whose commands it sends, because it hears the answers that they give."""
    forms = {verb: form for c in others for verb, form in c.forms.items() if verb not in NEVER_SENT}
    beginning = frozenset(verb.name for c in others for verb in c.verbs if verb.is_beginning)

    def find(state: CoreState, noun_id: str) -> Noun | None:
        return next((known[noun_id] for c in others if noun_id in (known := c.known(state))), None)

    begins_with = {verb.command: c for c in others for verb in c.verbs if verb.is_beginning}

    def ends(draft: Draft, command: Command) -> str:
        owner = begins_with.get(type(command))
        return "" if owner is None else owner.ends(draft.view(owner.view), command)

    def run_goes_on(state: CoreState, schedule: Schedule, now_ms: int) -> bool:
        """Also one whose command was not read yet, or whose end is to be noted."""
        run = schedule.run
        if run is None:
            return False
        found = None if run.control_offset < 0 or schedule.spec.command.subject else find(state, run.recovery)
        is_over = run.answer is not None and run.answer.kind != ACCEPTED
        if found is None or is_over or found.state in ENDED:
            return True
        return any(run.recovery in c.remaining(state, now_ms) for c in others)

    return Capability(
        name=NAME,
        view=ScheduleDraft,
        make_view=lambda draft: ScheduleDraft(draft, params, find, ends),
        verbs=(
            begins(StartSchedule, on_schedule),
            steers(EndSchedule, end_schedule),
            steers(StopCommand, end_schedule),
        ),
        handlers=(on(CommandNotSent, on_not_sent),),
        forms=make_forms(forms, beginning),
        steer=_steer,
        steers_after=(*_TIME, CommandReceived),
        subject=_subject,
        status=StatusForm(Schedule, lambda kind: kind == KIND, _FORM.write, _FORM.read),
        measures=make_measures(),
        restore=_restore,
        known=lambda state: state.of(SCHEDULES).by_id,
        is_active=lambda state: bool(state.of(SCHEDULES).live),
        remaining=lambda state, now_ms: [
            s.id
            for s in state.of(SCHEDULES).live.values()
            if has_work(s, now_ms, run_goes_on=run_goes_on(state, s, now_ms))
        ],
    )


def _restore(state: CoreState, nouns: Mapping[str, Noun], _sequences: Mapping[str, int]) -> CoreState:
    return state.having(SCHEDULES, Schedules.of(noun for noun in nouns.values() if isinstance(noun, Schedule)))


def _subject(draft: ScheduleDraft, schedule_id: str) -> Subject | None:
    schedule = draft.schedules.get(schedule_id)
    return None if schedule is None else Subject("schedule", schedule.state.value)


def _steer(draft: ScheduleDraft, event: object) -> None:
    hear(draft, event)
    if isinstance(event, BecameLeader):
        for schedule in list(draft.schedules.live.values()):
            look_at_clock(draft, schedule)
    if isinstance(event, _TIME):
        for schedule in list(draft.schedules.live.values()):
            fire_what_is_due(draft, follow(draft, schedule))
        if gone := overdue_ids(draft, draft.schedules.ended, draft.params):
            draft.forget_schedules(gone)

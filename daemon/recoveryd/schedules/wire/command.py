"""The data of the commands `schedule` and `unschedule`.

The command that is sent is checked with the form of its own verb when the schedule is made, as its first run would send
it, so that a mistake shows now and not in the night.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError, ValidationInfo, model_validator

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Meta
from recoveryd.schedules.carry import FIRST, LAST_END, MARK, is_incremental, is_mark, source_of, with_start
from recoveryd.schedules.due import NeverDue, check_cron, check_zone
from recoveryd.schedules.firing import with_limits, with_name
from recoveryd.schedules.spec import EndSchedule, ScheduledCommand, ScheduleSpec, StartSchedule
from recoveryd.wire.fields import Runtime, Strict, now_ms_of
from recoveryd.wire.forms import CommandData, VerbForm, verb_form
from recoveryd.wire.problems import explain, one_of, shown, wrong

# What another command has to name is not known when the schedule is made.
NEVER_SENT: Final = frozenset({"schedule", "unschedule", "approve", "reject"})
_SUBJECT: Final = r"^[a-z0-9][a-z0-9._-]{0,62}$"


def _check_cron(text: str) -> str:
    try:
        check_cron(text)
    except NeverDue as problem:
        hint = "Write minute, hour, day of month, month and day of week, for instance `0 2 * * *` or `*/15 * * * *`."
        raise wrong(f"is {shown(text)}: it {problem}", hint) from None
    return text


def _check_zone(name: str) -> str:
    try:
        check_zone(name)
    except NeverDue as problem:
        raise wrong(f"is {shown(name)}: it {problem}", "Write a name such as UTC or Europe/Berlin.") from None
    return name


class SentCommandData(Strict):
    verb: str = Field(description="the command to send, such as `replay`; none about schedules and approvals")
    data: dict[str, Any] = Field(
        description=(
            "its data; `reason` is the schedule's when left out. A replay's `source.from` may be "
            '`{"schedule":"last_end"}`: exactly where the last run ended, by partition; the first run starts at `first` '
            "beside it (`earliest` when left out). The `name` of a savepoint gets the due time behind it"
        )
    )
    subject: Annotated[str, Field(pattern=_SUBJECT)] | None = Field(
        default=None, description="whom a command such as `pause` is about; new recoveries get ids of their own"
    )


class ScheduleData(CommandData):
    cron: Annotated[str, AfterValidator(_check_cron)] = Field(
        description="five fields: minute, hour, day of month, month, day of week"
    )
    time_zone: Annotated[str, AfterValidator(_check_zone)] = Field(
        default="UTC", description="an IANA name; the fields of `cron` are its wall-clock time"
    )
    command: SentCommandData
    overrun: Literal["skip", "queue"] = Field(
        default="skip", description="what to do with a due time while the last run goes on; one is queued at most"
    )
    max_runtime: Runtime | None = Field(
        default=None, description="ends each run this long after it was fired, also over a restart: a deadline"
    )

    def to_core(self) -> ScheduleSpec:
        sent = self.command
        command = ScheduledCommand(sent.verb, {"reason": self.reason, **sent.data}, sent.subject)
        return ScheduleSpec(self.cron, command, self.time_zone, self.overrun, self.max_runtime)


class UnscheduleData(CommandData):
    pass


def make_forms(sent: Mapping[str, VerbForm], beginning: frozenset[str]) -> Mapping[str, VerbForm]:
    """`sent`: the forms of the verbs that may be sent, `beginning`: those that make something new."""

    class CheckedScheduleData(ScheduleData):
        _sent: CommandData = PrivateAttr()

        @model_validator(mode="after")
        def _can_be_sent(self, info: ValidationInfo) -> "CheckedScheduleData":
            self._sent = _check_sent(self.to_core(), sent, beginning, now_ms_of(info))
            return self

        def start(self, meta: Meta) -> StartSchedule:
            return StartSchedule(meta, self.to_core(), sent[self.command.verb].make(meta, self._sent))

    CheckedScheduleData.__name__ = ScheduleData.__name__
    return {
        StartSchedule.verb: verb_form(
            CheckedScheduleData, "new schedule: send a command again and again", lambda meta, data: data.start(meta)
        ),
        EndSchedule.verb: verb_form(
            UnscheduleData, "ends a schedule; a run that goes on is left alone", lambda meta, _: EndSchedule(meta)
        ),
    }


def _check_sent(
    spec: ScheduleSpec, sent: Mapping[str, VerbForm], beginning: frozenset[str], now_ms: int
) -> CommandData:
    """The data of its first run, as it would be sent now."""
    command = spec.command
    form = sent.get(command.verb)
    if form is None:
        message, hint = one_of(command.verb, tuple(sorted(sent)))
        raise wrong(f"has command.verb that {message}", hint)
    if (command.verb in beginning) != (command.subject is None):
        if command.subject is None:
            raise wrong(
                f"has no command.subject, but {command.verb} is about something",
                "Name the recovery in command.subject.",
                code=Code.MISSING_FIELD,
            )
        raise wrong(
            f"has a command.subject, but each {command.verb} gets an id of its own", "Leave command.subject out."
        )
    _check_carried(command)
    data = with_name(command.verb, with_start(command.data, None), now_ms)
    if spec.max_runtime_ms is not None:
        if "limits" not in form.model.model_fields or "max_runtime" not in _fields_of_limits(form):
            raise wrong(f"has max_runtime, but {command.verb} has no limits", "Leave max_runtime out.")
        try:
            data = with_limits(data, spec.max_runtime_ms, now_ms + spec.max_runtime_ms, now_ms)
        except ValueError as problem:
            raise wrong(f"has a limit in command.data.limits that {problem}") from None
    try:
        return form.model.model_validate(data, context={"now_ms": now_ms})
    except ValidationError as error:
        found = explain(error, form.model, "command.data", command.verb)
        raise wrong(f"cannot be sent: {found.message.rstrip('.')}", found.hint, code=found.code) from None


def _fields_of_limits(form: VerbForm) -> Mapping[str, Any]:
    return getattr(form.model.model_fields["limits"].annotation, "model_fields", {})


def _check_carried(command: ScheduledCommand) -> None:
    """What continues the last run has to be able to."""
    source = source_of(command.data)
    start = source.get("from")
    if not is_mark(start):
        return
    if not isinstance(start, Mapping) or start.get(MARK) != LAST_END or set(start) - {MARK, FIRST}:
        raise wrong(
            f"has command.data.source.from {shown(start)}", 'Write {"schedule": "last_end", "first": "earliest"}.'
        )
    if command.verb != "replay":
        raise wrong(f"has a start at the last end, but a {command.verb} continues nothing")
    target = command.data.get("target")
    if not isinstance(target, Mapping) or target.get("on_existing") != "append":
        raise wrong(
            "has runs that continue each other, but its target takes records of the first one only",
            'Write "on_existing": "append" in command.data.target.',
        )
    if command.data.get("dry_run"):
        raise wrong("has runs that continue each other, but a dry run copies nothing", "Leave dry_run out.")
    assert is_incremental(command)

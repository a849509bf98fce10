"""A capability from outside of the daemon takes part in everything: commands, events, state, status topic, restart."""

from dataclasses import dataclass, field, is_dataclass, replace
from importlib import import_module
from typing import Any, get_args, get_type_hints

import pytest

from recoveryd.capabilities import make_capabilities
from recoveryd.kernel.capability import Capability, StatusForm, Subject, begins, names, on, steers
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Meta, StopCommand
from recoveryd.kernel.decide import Decider
from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.events import BecameLeader, CommandNotSent, CommandReceived, Tick
from recoveryd.kernel.metrics import Measures, Metric, MetricKind, Sample
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.state import CoreState, Slot
from recoveryd.metrics.book import MetricsBook
from recoveryd.wire.codec import Codec
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.wire.status_topic import StatusTopic, encode_daemon
from tests.builders.core import NOW_MS, command


@dataclass(frozen=True, slots=True)
class Bell:
    """Rings once its time has come."""

    id: str
    created_ms: int
    at_ms: int
    state: str = "waiting"


@dataclass(frozen=True, slots=True)
class SetBell:
    meta: Meta
    in_ms: int
    verb = "bell"


@dataclass(frozen=True, slots=True)
class Struck:
    """The event that somebody struck the bell."""

    bell: str


@dataclass(frozen=True, slots=True)
class BellParams:
    """What bells need of the config; nothing else knows it."""

    in_ms_most: int = 3_600_000


class BellData(CommandData):
    in_ms: int


BELLS: Slot[dict[str, Bell]] = Slot("bells", {})


class BellDraft(View):
    def __init__(self, draft: Draft, params: BellParams) -> None:
        super().__init__(draft)
        self.params = params
        self.bells = draft.before.of(BELLS)

    def put(self, bell: Bell) -> None:
        self.draft.journal(bell)
        self.bells = {**self.bells, bell.id: bell}

    def finish(self, state: CoreState) -> CoreState:
        return state.having(BELLS, self.bells)


def _set(draft: BellDraft, event: CommandReceived, given: SetBell) -> None:
    if given.in_ms > draft.params.in_ms_most:
        draft.answer(event, "rejected", "nobody waits so long")
        return
    draft.put(Bell(given.meta.subject, draft.now_ms, draft.now_ms + given.in_ms))
    draft.answer(event, "accepted", "it will ring")


def _stop(draft: BellDraft, event: CommandReceived, given: StopCommand) -> None:
    draft.put(replace(draft.bells[given.meta.subject], state="stopped"))
    draft.answer(event, "accepted", "it is quiet")


def _ring(draft: BellDraft, bell: Bell) -> None:
    draft.put(replace(bell, state="rung"))
    draft.notice("bell_rang", bell.id, {"why": "its time has come"})


def _steer(draft: BellDraft, _event: object) -> None:
    for bell in draft.bells.values():
        if bell.state == "waiting" and draft.now_ms >= bell.at_ms:
            _ring(draft, bell)


def _subject(draft: BellDraft, bell_id: str) -> Subject | None:
    bell = draft.bells.get(bell_id)
    return None if bell is None else Subject("bell", bell.state)


def _to_document(bell: Bell) -> dict[str, Any]:
    return {"recovery": bell.id, "kind": "bell", "created": bell.created_ms, "at": bell.at_ms, "state": bell.state}


RINGS = Metric("recoveryd_rings_total", MetricKind.COUNTER, "Bells that rang.")
QUIET = Metric("recoveryd_quiet_bells", MetricKind.GAUGE, "Bells that still wait.")


def _rung(before: CoreState, after: CoreState) -> list[Sample]:
    rung, known = (sum(b.state == "rung" for b in s.of(BELLS).values()) for s in (after, before))
    return [Sample(RINGS, (), rung - known)]


def _quiet(state: CoreState, _now_ms: int) -> list[Sample]:
    return [Sample(QUIET, (), sum(b.state == "waiting" for b in state.of(BELLS).values()))]


def make_bells(params: BellParams = BellParams()) -> Capability[BellDraft]:
    return Capability(
        name="bells",
        view=BellDraft,
        make_view=lambda draft: BellDraft(draft, params),
        events=(Struck,),
        verbs=(begins(SetBell, _set), steers(StopCommand, _stop)),
        handlers=(on(Struck, lambda draft, event: _ring(draft, draft.bells[event.bell])),),
        steer=_steer,
        subject=_subject,
        forms={"bell": verb_form(BellData, "rings later", lambda meta, data: SetBell(meta, data.in_ms))},
        status=StatusForm(
            Bell,
            lambda kind: kind == "bell",
            _to_document,
            lambda d: Bell(d["recovery"], d["created"], d["at"], d["state"]),
        ),
        measures=Measures((RINGS, QUIET), gauges=_quiet, increments=_rung),
        restore=lambda state, nouns, _: state.having(BELLS, {i: n for i, n in nouns.items() if isinstance(n, Bell)}),
        known=lambda state: state.of(BELLS),
        is_active=lambda state: any(b.state == "waiting" for b in state.of(BELLS).values()),
    )


@dataclass
class House:
    """All capabilities of the daemon and one more, with the records that they wrote."""

    capabilities: list[Capability[Any]] = field(default_factory=lambda: [*make_capabilities(), make_bells()])
    offset: int = 0

    def __post_init__(self) -> None:
        self.core, self.codec = Decider(self.capabilities), Codec(self.capabilities)
        self.topic = StatusTopic(self.capabilities)
        self.state, self.now_ms = CoreState(), NOW_MS
        self.written: dict[bytes, bytes] = {}
        self.told: list[str] = []
        self.feed(BecameLeader(1, "control"))

    def feed(self, event: object) -> list[str]:
        """The kinds of the answers."""
        decision = self.core.decide(self.state, event, self.now_ms)
        self.state = decision.state
        self.written |= dict(map(self.topic.encode, decision.changed))
        self.told += [notice.type for notice in decision.notices]
        return [answer.kind for answer in decision.answers]

    def send(self, verb: str, subject: str, **data: object) -> list[str]:
        self.offset += 1
        made = self.codec.encode(
            verb, subject, {"reason": "r", **data}, id=str(self.offset), source="//t", time_ms=self.now_ms
        )
        event = self.codec.decode_event(0, self.offset, self.now_ms, made.key, made.value, made.headers)  # type: ignore[union-attr]
        return self.feed(event)


def test_a_capability_from_outside_lives_like_those_of_the_house() -> None:
    house = House()
    assert house.send("bell", "b1", in_ms=5_000) == ["accepted"]
    assert house.core.is_active(house.state)
    assert house.send("replay", "b1", source={"topic": "a", "from": "earliest", "to": "latest"}, target={"topic": "b"}) == ["rejected"]  # fmt: skip
    assert house.send("pause", "b1") == ["rejected"]
    fold = house.topic.fold([encode_daemon(house.state.daemon), *house.written.items()])
    house.state = house.core.restore(fold.daemon, fold.nouns, {})
    house.now_ms += 5_000
    house.feed(Tick())
    assert house.core.known(house.state)["b1"] == Bell("b1", NOW_MS, NOW_MS + 5_000, "rung")
    assert "bell_rang" in house.told
    assert not house.core.is_active(house.state)


def test_an_event_of_its_own_and_a_verb_that_all_understand_reach_it() -> None:
    house = House()
    house.send("bell", "b1", in_ms=5_000)
    house.send("bell", "b2", in_ms=5_000)
    house.feed(Struck("b1"))
    assert house.send("stop", "b2") == ["accepted"]
    assert [bell.state for bell in house.state.of(BELLS).values()] == ["rung", "stopped"]


def test_its_metrics_stand_beside_those_of_the_house() -> None:
    house, quiet = House(), CoreState()
    book = MetricsBook(house.capabilities)
    house.send("bell", "b1", in_ms=5_000)
    house.send("bell", "b2", in_ms=5_000)
    house.feed(Struck("b1"))
    assert {RINGS, QUIET} <= set(book.metrics)
    assert Sample(QUIET, (), 1) in list(book.gauges(house.state, house.now_ms))
    assert book.increments(quiet, house.state) == [Sample(RINGS, (), 1)]


def test_a_recovery_and_a_bell_never_share_an_id() -> None:
    house = House()
    house.feed(command("replay", "r1"))
    assert house.send("bell", "r1", in_ms=1) == ["rejected"]


def test_it_has_numbers_of_its_own_that_nobody_else_knows() -> None:
    house = House([*make_capabilities(), make_bells(BellParams(in_ms_most=10))])
    assert [house.send("bell", name, in_ms=wait) for name, wait in (("b1", 10), ("b2", 11))] == [
        ["accepted"], ["rejected"],
    ]  # fmt: skip


def test_two_that_begin_the_same_command_are_refused() -> None:
    with pytest.raises(ValueError, match="SetBell has two that begin it: bells, bells"):
        Decider([make_bells(), make_bells(), *make_capabilities()])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_command_that_one_begins_and_another_steers_is_refused_in_either_order(order: tuple[int, int]) -> None:
    pair = make_bells(), replace(make_bells(), name="gongs", verbs=(steers(SetBell, _stop),))
    with pytest.raises(ValueError, match="SetBell is begun by bells and steered by gongs"):
        Decider([*(pair[number] for number in order), *make_capabilities()])


def test_a_capability_that_steers_a_command_twice_is_refused() -> None:
    twice = replace(make_bells(), verbs=(begins(SetBell, _set), steers(StopCommand, _stop), steers(StopCommand, _stop)))
    with pytest.raises(ValueError, match="StopCommand is steered twice by bells"):
        Decider([twice, *make_capabilities()])


def test_a_command_that_names_what_it_is_about_takes_a_free_id_or_one_of_its_own_kind() -> None:
    heard: list[str] = []

    def hush(draft: BellDraft, event: CommandReceived, given: SetBell) -> None:
        heard.append(given.meta.subject)
        draft.answer(event, "accepted", "quiet")

    hushing = replace(make_bells(), verbs=(names(SetBell, hush), steers(StopCommand, _stop)))
    house = House([*make_capabilities(), hushing])
    house.state = house.state.having(BELLS, {"b1": Bell("b1", NOW_MS, NOW_MS)})
    house.feed(command("replay", "r1"))
    assert [house.send("bell", name, in_ms=1) for name in ("b1", "nothing", "r1")] == [
        ["accepted"], ["accepted"], ["rejected"],
    ]  # fmt: skip
    assert heard == ["b1", "nothing"]
    decision = house.core.decide(house.state, command("pause", "b1", "c9", offset=9), NOW_MS)
    assert [answer.code for answer in decision.answers] == ["RCV-1031"]


def test_a_command_about_an_id_that_nothing_has_speaks_of_no_kind() -> None:
    house = House()
    decision = house.core.decide(house.state, command("stop", "nobody"), NOW_MS)
    assert [(a.code, a.message) for a in decision.answers] == [("RCV-1010", "nothing has the id nobody")]


def test_an_event_that_nobody_handles_is_refused() -> None:
    deaf = replace(make_bells(), handlers=())
    with pytest.raises(ValueError, match="no capability handles Struck"):
        Decider([deaf, *make_capabilities()])


def test_a_command_that_was_not_sent_need_not_be_heard_by_anybody() -> None:
    house = House()
    before = house.state
    house.feed(CommandNotSent("b1", "c1", "RCV-3001", "no answer", True))
    assert house.state == before


def test_one_capability_refuses_what_another_would_begin_and_nothing_that_steers() -> None:
    quiet = make_bells()
    no_night = Refused(Code.NOT_IN_THIS_STATE, "not at night", "Ring tomorrow.")
    refusing = replace(quiet, refuses=lambda _draft, given: no_night if given.meta.subject == "night" else None)
    core = Decider([*make_capabilities(), refusing])
    refused = core.decide(CoreState(), command("replay", "night"), NOW_MS)
    (answer,) = refused.answers
    assert (answer.kind, answer.message, answer.hint) == ("rejected", "not at night", "Ring tomorrow.")
    assert core.known(refused.state).get("night") is None
    begun = core.decide(CoreState(), command("replay", "day"), NOW_MS)
    assert core.known(begun.state).get("day") is not None
    quiet_again = replace(refusing, refuses=lambda _draft, _given: no_night)
    stopped = Decider([*make_capabilities(), quiet_again]).decide(begun.state, command("stop", "day", "c2"), NOW_MS)
    assert "not at night" not in {answer.message for answer in stopped.answers}


def test_only_those_steer_whom_the_event_concerns_and_after_an_answer_everybody() -> None:
    steered: list[str] = []

    def noting(name: str, kinds: tuple[type, ...]) -> Capability[View]:
        view = type(name, (View,), {})
        return Capability(
            name=name,
            view=view,
            make_view=view,
            steer=lambda _draft, event: steered.append(f"{name} {type(event).__name__}"),
            steers_after=kinds,
        )

    bound = Decider([*make_capabilities(), noting("clock", (Tick,)), noting("any", (object,))])
    leader = bound.decide(CoreState(), BecameLeader(1, "c"), NOW_MS).state
    bound.decide(leader, Tick(), NOW_MS)
    bound.decide(leader, command("pause", "nothing"), NOW_MS)
    assert steered == ["any BecameLeader", "clock Tick", "any Tick", "clock CommandReceived", "any CommandReceived"]


def test_a_form_of_a_command_that_nobody_takes_is_refused() -> None:
    mute = replace(make_bells(), verbs=(steers(StopCommand, _stop),))
    with pytest.raises(ValueError, match="bells has a form of bell and does not take it"):
        Decider([mute, *make_capabilities()])


def test_a_command_that_no_record_can_carry_is_refused() -> None:
    formless = replace(make_bells(), forms={})
    with pytest.raises(ValueError, match="bells takes bell, which has no form"):
        Decider([formless, *make_capabilities()])


def test_a_second_form_of_a_command_is_refused() -> None:
    second = replace(make_bells(), forms={**make_bells().forms, "stop": make_bells().forms["bell"]})
    with pytest.raises(ValueError, match="stop has two forms: of bells, of recovery"):
        Decider([second, *make_capabilities()])


def test_forms_of_signals_that_nobody_hears_are_refused() -> None:
    deaf = replace(make_bells(), signals={"dong": object()})
    with pytest.raises(ValueError, match="bells has forms of signals and does not hear any"):
        Decider([deaf, *make_capabilities()])


def test_a_handler_of_an_event_that_nobody_defines_is_refused() -> None:
    undefined = replace(make_bells(), events=())
    with pytest.raises(ValueError, match="no capability defines Struck"):
        Decider([undefined, *make_capabilities()])


def _parts(given: Any) -> set[type]:
    """The classes that a type is made of."""
    found = {given} if isinstance(given, type) else set()
    return found.union(*(_parts(part) for part in get_args(given)))


@pytest.mark.parametrize("capability", make_capabilities(), ids=lambda capability: capability.name)
def test_every_event_of_a_module_of_events_is_one_of_its_capability(capability: Capability[Any]) -> None:
    places = {event.__module__ for event in capability.events if event.__module__.endswith(".events")}
    defined = {
        found
        for place in places
        for found in vars(import_module(place)).values()
        if is_dataclass(found) and isinstance(found, type) and found.__module__ == place
    }
    inner = {part for found in defined for hint in get_type_hints(found).values() for part in _parts(hint)}
    assert defined - inner - set(capability.events) == set()

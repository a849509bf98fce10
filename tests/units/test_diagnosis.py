"""Which of six places a fault is in: synthetic situations, one row each, from a unit that gets on well."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from recoveryd.units.diagnosis.causes import FaultClass
from recoveryd.units.diagnosis.diagnose import Diagnosis, diagnose
from recoveryd.units.diagnosis.forms import Form, form_of
from recoveryd.units.diagnosis.movement import moves_of
from recoveryd.units.diagnosis.runtime import UnitPace
from recoveryd.units.diagnosis.seen import NextRecord, OtherWork, Quota, Replicas, UnitLook, Watched
from recoveryd.units.facts import Committed, Group, GroupType, Member, PartitionEnds, UnitTopic
from recoveryd.units.internal_topics import InternalTopics
from recoveryd.units.model import Behaviour, Output, Unit, UnitKind
from tests.units.test_topology import topology

UNIT = Unit(
    "words", UnitKind.STREAMS, "main", "app", ("words",), outputs={"counts-out": Output(Behaviour.IDEMPOTENT)},
    topology=topology("word-count"),
)  # fmt: skip
CHANGELOG = "app-counts-changelog"
INTERNAL = (CHANGELOG, "app-counts-repartition")
COMPACTED = {"cleanup.policy": "compact"}


def member(name: str, *partitions: int) -> Member:
    return Member(name, f"{name}-client", "h", None, frozenset({"words"}), {"words": frozenset(partitions)})


@dataclass(frozen=True)
class Situation:
    """Two looks, 20 s apart. `before` and `after`: committed offsets on `words`; every log begins at 0."""

    before: tuple[int | None, ...] = (100, 100)
    after: tuple[int | None, ...] = (200, 200)
    ends_before: int = 110
    ends_after: int = 210
    starts: int = 0
    members: tuple[tuple[Member, ...], ...] = ((member("a", 0), member("b", 1)),) * 3
    state: str = "stable"
    without: tuple[str, ...] = ()
    stable: int | None = None
    changelog: tuple[int, int] = (0, 50)
    policy: Mapping[str, str] = field(default_factory=lambda: COMPACTED)
    more: Mapping[str, object] = field(default_factory=dict)

    def watched(self) -> Watched:
        names = [name for name in ("words", "counts-out", *INTERNAL) if name not in self.without]
        groups = [self._group(each, self.before) for each in self.members]
        groups[-1] = self._group(self.members[-1], self.after)
        first = self._look(0, groups[0], names, self.ends_before)
        last = self._look(20_000, groups[-1], names, self.ends_after)
        topics = {name: UnitTopic(name, name, last.ends[name], 1, self.policy) for name in names}
        watched = Watched(first, last, tuple(groups), topics, InternalTopics(INTERNAL), bytes_per_record=100.0)
        return replace(watched, **self.more)  # type: ignore[arg-type]

    def _group(self, members: tuple[Member, ...], at: tuple[int | None, ...]) -> Group:
        offsets = {p: Committed(offset) for p, offset in enumerate(at) if offset is not None}
        return Group("app", GroupType.CLASSIC, self.state if members else "empty", members, {"words": offsets})

    def _look(self, at_ms: int, group: Group, names: list[str], end: int) -> UnitLook:
        ends = {name: {p: PartitionEnds(0, 500) for p in range(2)} for name in names}
        if "words" in ends:
            ends["words"] = {p: PartitionEnds(self.starts, end) for p in range(2)}
        if CHANGELOG in ends:
            ends[CHANGELOG] = {p: PartitionEnds(*self.changelog) for p in range(2)}
        stable = {} if self.stable is None else {"words": dict.fromkeys(range(2), self.stable)}
        return UnitLook(at_ms, group, ends, stable)


WELL = Situation()
STUCK = Situation(after=(100, 100))
LOOP = replace(STUCK, members=tuple((member(f"m{i}", 0, 1),) for i in range(4)))
NEW = (NextRecord("words", 0, 100, Form("schema id 8"), (Form("schema id 7"),)),)
SAME = (NextRecord("words", 0, 100, Form("schema id 7"), (Form("schema id 7"),)),)
SLOW = (Quota("client-id a-client", "consumer_byte_rate", 500.0, clients=2),)


def seen(situation: Situation, **changes: object) -> Situation:
    return replace(situation, more={**situation.more, **changes})


def judged(situation: Situation, unit: Unit = UNIT) -> Diagnosis:
    return diagnose(unit, situation.watched())


# The situation, how it gets on, the places, the first cause, the path from where to go on.
ROWS: list[tuple[str, Situation, UnitPace, str, str, str]] = [
    ("nothing is wrong", WELL, UnitPace.WELL, "", "", ""),
    ("it has much to do and does it", replace(WELL, ends_before=900, ends_after=910), UnitPace.CATCHING_UP, "", "", ""),
    ("nothing but a marker lies behind its offset", seen(replace(WELL, after=(101, 100), ends_before=101, ends_after=101), read_out=frozenset({("words", 1)})), UnitPace.WELL, "", "", ""),
    # runtime
    ("nobody runs it", replace(STUCK, members=((),) * 3), UnitPace.STOPPED, "runtime", "no_members", "resume"),
    ("its worker dies again and again", LOOP, UnitPace.RESTARTING, "runtime", "restart_loop", "resume"),
    ("one of two members does nothing", replace(WELL, after=(200, 100)), UnitPace.STALLED, "runtime", "dead_worker", "resume"),
    ("members hang", STUCK, UnitPace.STALLED, "runtime", "hung", "resume"),
    ("the group never comes to rest", replace(STUCK, state="preparing_rebalancing"), UnitPace.RESTARTING, "runtime", "restart_loop", "resume"),
    # Kafka input
    ("an input is gone", replace(LOOP, without=("words",)), UnitPace.RESTARTING, "kafka_input", "input_missing", "resume"),
    ("nobody leads an input", seen(STUCK, replicas={"words": Replicas(leaderless=(1,))}), UnitPace.STALLED, "kafka_input", "input_leaderless", "resume"),
    ("retention was faster", replace(STUCK, starts=105), UnitPace.STALLED, "kafka_input", "offset_below_log", "escalate"),
    ("a topic was made anew", replace(STUCK, ends_before=20, ends_after=30), UnitPace.WELL, "kafka_input", "offset_beyond_log", "escalate"),
    ("a transaction is open", replace(STUCK, stable=100), UnitPace.STALLED, "kafka_input", "input_blocked", "resume"),
    # schema
    ("it starts again at a new schema", seen(LOOP, next_records=NEW), UnitPace.RESTARTING, "schema", "form_changed", "escalate"),
    ("it stopped at a new schema", seen(replace(STUCK, members=((),) * 2), next_records=NEW), UnitPace.STOPPED, "schema runtime", "form_changed", "escalate"),
    ("its reader goes on elsewhere", seen(replace(STUCK, after=(100, 200), members=((member("a", 0, 1),),) * 2), next_records=SAME), UnitPace.STALLED, "schema", "record_refused", "escalate"),
    ("it starts again at a record like others", seen(LOOP, next_records=SAME), UnitPace.RESTARTING, "runtime", "restart_loop", "resume"),
    # state
    ("a changelog is gone", replace(LOOP, without=(CHANGELOG,)), UnitPace.RESTARTING, "state", "changelog_missing", "restore_state"),
    ("a changelog was emptied", replace(LOOP, changelog=(50, 50)), UnitPace.RESTARTING, "state", "changelog_emptied", "restore_state"),
    ("a changelog takes no writes", seen(STUCK, replicas={CHANGELOG: Replicas(not_writable=(0,))}), UnitPace.STALLED, "state", "changelog_not_writable", "restore_state"),
    # sink
    ("an output is gone", replace(LOOP, without=("counts-out",)), UnitPace.RESTARTING, "sink", "output_missing", "resume"),
    ("an output takes no writes", seen(STUCK, replicas={"counts-out": Replicas(not_writable=(0, 1))}), UnitPace.STALLED, "sink", "output_not_writable", "resume"),
    # capacity
    ("it is too slow", replace(WELL, after=(120, 120), ends_before=300, ends_after=900), UnitPace.FALLING_BEHIND, "capacity", "too_slow", "resume"),
    ("a quota slows it", seen(replace(WELL, ends_before=900, ends_after=950), quotas=SLOW), UnitPace.THROTTLED, "capacity", "throttled", "resume"),
    ("a quota lets it read nothing in this time", seen(STUCK, quotas=SLOW), UnitPace.THROTTLED, "capacity", "throttled", "resume"),
    ("a quota slows it, at records that differ", seen(STUCK, quotas=SLOW, next_records=NEW), UnitPace.THROTTLED, "capacity", "throttled", "resume"),
    ("a quota lets it read much more", seen(STUCK, quotas=(replace(SLOW[0], value=1e6),)), UnitPace.STALLED, "runtime", "hung", "resume"),
    ("a quota slows one of two", seen(STUCK, quotas=(replace(SLOW[0], clients=1),)), UnitPace.STALLED, "runtime", "hung", "resume"),
    # several
    ("state and sink", replace(LOOP, without=(CHANGELOG, "counts-out")), UnitPace.RESTARTING, "state sink", "changelog_missing", "restore_state"),
    ("no input, and nobody runs it", replace(STUCK, without=("words",), members=((),) * 2), UnitPace.STOPPED, "kafka_input", "input_missing", "resume"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("situation", "pace", "faults", "first", "path"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_each_situation_has_its_place_and_its_way_on(
    situation: Situation, pace: UnitPace, faults: str, first: str, path: str
) -> None:
    found = judged(situation)
    assert (found.course.pace, " ".join(found.faults)) == (pace, faults)
    assert (found.causes[0].name if found.causes else "") == first
    assert (found.point.path if found.point else "") == path
    assert found.is_well is (not faults)


@pytest.mark.scenario("S-RUN-20")
def test_the_six_places_are_all_told_apart() -> None:
    assert {fault for *_, faults, _first, _path in ROWS for fault in faults.split()} == set(FaultClass)


@pytest.mark.scenario("S-RUN-20")
def test_two_loops_go_on_from_different_points() -> None:
    dead, changed = judged(LOOP).point, judged(seen(LOOP, next_records=NEW)).point
    assert dead is not None
    assert changed is not None
    assert (dead.path, dead.positions) == ("resume", (("words", 0, 100), ("words", 1, 100)))
    assert (changed.path, changed.positions) == ("escalate", (("words", 0, 100),))


def test_what_may_be_the_cause_is_told_after_what_is() -> None:
    work = OtherWork("r1", "running", "words", reads=True)
    found = judged(seen(LOOP, work=(work,)))
    assert [cause.name for cause in found.causes] == ["restart_loop", "recovery_at_work"]
    assert found.faults == (FaultClass.RUNTIME,)
    assert judged(seen(WELL, work=(work,))).is_well


def test_a_group_that_cannot_be_described_is_not_called_stopped() -> None:
    watched = STUCK.watched()
    untold = Group("app", GroupType.UNKNOWN, "unknown")
    first, last = replace(watched.first, group=untold), replace(watched.last, group=untold)
    found = diagnose(UNIT, replace(watched, first=first, last=last, groups=(untold, untold)))
    assert (found.course.pace, found.is_well) == (UnitPace.UNKNOWN, False)


def test_what_was_written_may_be_written_twice_where_nobody_says_otherwise() -> None:
    gone = replace(LOOP, without=("counts-out",))
    undeclared = replace(UNIT, outputs={"counts-out": Output()})
    points = [judged(gone, unit).point for unit in (UNIT, undeclared)]
    assert ["twice" in point.why for point in points if point is not None] == [False, True]


FORMS: list[tuple[bytes | None, str]] = [
    (None, "a tombstone"),
    (b"", "empty"),
    (b"\x00\x00\x00\x01\x02rest", "schema id 258"),
    (b"\x00\x01", "text"),
    (b"\xff\xfe", "bytes"),
    (b'{"a": 1}', "JSON"),
    (b"[1]", "JSON"),
    (b'{"a": ', "text"),
    (b"[" * 100_000, "text"),
]


@pytest.mark.parametrize(("value", "kind"), FORMS, ids=[repr(value)[:20] for value, _ in FORMS])
def test_what_a_record_looks_like(value: bytes | None, kind: str) -> None:
    assert form_of(value).kind == kind


CHANGES: list[tuple[list[bytes | None], bytes | None, str | None]] = [
    ([b'{"a": 1}'], b'{"a": 2, "b": 3}', None),
    ([b'{"a": 1}'], b'{"a": "x"}', "field a was a number and is text"),
    ([b'{"a": 1, "b": 1}', b'{"a": 1}'], b'{"a": 2}', None),
    ([b'{"a": 1}'], b'{"c": 2}', "field a is gone"),
    ([b'{"a": null}'], b'{"a": 2}', None),
    ([b"\x00\x00\x00\x00\x01x", b"\x00\x00\x00\x00\x02x"], b"\x00\x00\x00\x00\x02y", None),
    ([b"\x00\x00\x00\x00\x01x"], b'{"a": 2}', "schema id 1 before, JSON now"),
    ([b"x"], None, None),
    ([None], b"x", None),
    ([], b"x", None),
]


@pytest.mark.parametrize(("earlier", "after", "told"), CHANGES)
def test_what_changed_between_records(earlier: list[bytes | None], after: bytes | None, told: str | None) -> None:
    from recoveryd.units.diagnosis.forms import what_changed

    assert what_changed([form_of(value) for value in earlier], form_of(after)) == told


def test_what_only_a_global_table_reads_is_not_left_to_be_read() -> None:
    group = Group("app", GroupType.CLASSIC, "stable", committed={"words": {0: Committed(5)}})
    ends = {name: {0: PartitionEnds(0, 10)} for name in ("words", "g")}
    first, last = (UnitLook(at_ms, group, ends, {}) for at_ms in (0, 20_000))
    joined = replace(UNIT, inputs=("words", "g"), topology=topology("global-table"))
    assert {move.topic for move in moves_of(joined, first, last)} == {"words"}
    assert {move.topic for move in moves_of(replace(joined, topology=None), first, last)} == {"words", "g"}

"""What is judged of the journal's last transactions from what lies in its topics, and what a session makes of it: every
way in which markers get lost, clients end and leaders follow each other, on a model of a broker.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.adapters.kafka.journal_session import JournalSession
from recoveryd.adapters.kafka.journal_stamps import (
    COPY_HEADER,
    STAMP_HEADER,
    Acknowledged,
    HiddenRecord,
    Judgement,
    PartitionTail,
    Place,
    Stamp,
    judge,
    read_found,
    read_stamp,
)
from recoveryd.adapters.kafka.transactions import Marks, OutgoingKafkaRecord, SessionLost, Unsettled
from recoveryd.errors import ClusterProblem

A, B = ("a", 0), ("b", 0)
ONE, TWO = Stamp("s", 1, 1, 2), Stamp("s", 2, 1, 2)


def record(topic: str, value: bytes = b"") -> OutgoingKafkaRecord:
    return OutgoingKafkaRecord(topic, None, value)


def tail(place: Place, stable: int, end: int, seen: Stamp | None = None, **at: Stamp | None) -> PartitionTail:
    """`at`: stamps by offset, as `_3=...`; a record's value is its offset."""
    found = [HiddenRecord(int(o[1:]), s, record(place[0], o[1:].encode())) for o, s in at.items()]
    return PartitionTail(place, stable, end, seen, found)


def test_a_stamp_is_read_as_it_was_written() -> None:
    assert read_stamp([("x", b"y"), ONE.header()]) == ONE
    assert [read_stamp(headers) for headers in ([], [(STAMP_HEADER, None)], [(STAMP_HEADER, b"s.1.2")])] == [None] * 3


@pytest.mark.parametrize(
    ("what", "tails", "expected"),
    [
        ("all is seen", [tail(A, 9, 9, ONE), tail(B, 5, 5, ONE)], ([], [], [])),
        ("seen in one partition, open in the other", [tail(A, 9, 9, ONE), tail(B, 3, 4, None, _3=ONE)], ([B], [], [])),
        ("whole and open", [tail(A, 8, 9, None, _8=ONE), tail(B, 3, 4, None, _3=ONE)], ([A, B], [], [])),
        ("half of it is there", [tail(A, 8, 9, None, _8=ONE), tail(B, 3, 3)], ([], [A], [])),
        ("aborted in one, open in the other", [tail(A, 10, 10, None, _8=ONE), tail(B, 3, 4, None, _3=ONE)], ([], [B], [])),
        ("another attempt came behind it", [tail(A, 8, 9, None, _8=ONE), tail(B, 4, 6, None, _4=ONE, _5=replace(ONE, attempt=2))], ([], [A, B], [])),
        ("a later number came, so it landed", [tail(A, 8, 9, None, _8=ONE), tail(B, 5, 5, TWO)], ([A], [], [])),
        ("landed, taken away by the abort of the next one", [tail(A, 11, 11, None, _8=ONE, _9=TWO), tail(B, 5, 5, ONE)], ([], [], [b"8"])),
        ("landed, and something dead is open behind it", [tail(A, 8, 10, None, _8=ONE, _9=TWO), tail(B, 5, 5, ONE)], ([], [A], [])),
        ("nobody's", [tail(A, 8, 9, None, _8=None), tail(B, 5, 5, ONE)], ([], [A], [])),
        ("with a marker behind it that is not decided yet", [tail(A, 7, 10, None, _7=None, _8=ONE), tail(B, 5, 5)], ([], [A], [])),
    ],
)  # fmt: skip
def test_what_is_open_or_was_taken_away_is_judged_by_its_stamp(
    what: str, tails: list[PartitionTail], expected: tuple[list[Place], list[Place], list[bytes]]
) -> None:
    found = judge(tails, {})
    assert (found.commit, found.abort, [each.value for each in found.lost]) == expected, what


def test_a_copy_that_was_taken_away_too_stands_for_what_it_was_to_bring_back() -> None:
    gone = tail(A, 13, 13, None, _8=ONE, _10=replace(TWO, count=1), _11=replace(TWO, number=3))
    copy = replace(gone.found[1], copy_of=8)
    twice = replace(gone, found=[gone.found[0], copy, gone.found[2]])
    [lost] = judge([twice, tail(B, 5, 5, ONE)], {}).lost
    assert (lost.value, lost.headers) == (b"10", ((COPY_HEADER, b"10"),))
    assert read_found(14, replace(lost, headers=(*lost.headers, TWO.header()))) == HiddenRecord(
        14, TWO, record("a", b"10"), 10
    )


def test_what_the_session_was_told_counts_where_no_later_number_was_seen() -> None:
    gone = [tail(A, 10, 10, None, _8=ONE), tail(B, 5, 5)]
    assert [each.value for each in judge(gone, {"s": 1}).lost] == [b"8"]
    assert judge(gone, {"other": 1}).lost == []


def test_what_is_known_not_to_have_landed_is_ended_though_it_looks_whole() -> None:
    whole = [tail(A, 8, 9, None, _8=ONE), tail(B, 3, 4, None, _3=ONE)]
    assert judge(whole, {}, ("s", 1)) == Judgement([], [A, B], [], frozenset(), frozenset({A, B}))


# --- a model of a broker that loses markers, and leaders that come and go ---


class Killed(Exception):  # noqa: N818  (named for what happened)
    """The daemon is gone."""


@dataclass
class Entry:
    record: OutgoingKafkaRecord | None  # None = a marker
    state: str  # open, seen, aborted


@dataclass
class World:
    """`chance(n)` is a number below n; 0 is what usually happens."""

    chance: Callable[[int], int]
    logs: dict[Place, list[Entry]] = field(default_factory=lambda: {A: [], B: []})
    epoch: int = 0
    under_way: set[Place] = field(default_factory=set)

    def take(self) -> int:
        self.end("aborted")
        self.epoch += 1
        return self.epoch

    def end(self, how: str) -> None:
        for place in sorted(self.under_way):
            if self.chance(4) != 1:  # else the marker is lost
                for entry in self.logs[place]:
                    entry.state = how if entry.state == "open" else entry.state
                self.logs[place].append(Entry(None, how))
        self.under_way = set()

    def append(self, one: OutgoingKafkaRecord) -> int:
        place = one.topic, 0
        self.under_way.add(place)
        self.logs[place].append(Entry(one, "open"))
        return len(self.logs[place]) - 1

    def seen(self, place: Place) -> list[int]:
        return [int(e.record.value or b"") for e in self.logs[place] if e.record is not None and e.state == "seen"]

    def tail(self, place: Place) -> PartitionTail:
        log = self.logs[place]
        last = max((o for o, entry in enumerate(log) if entry.state == "seen" and entry.record is not None), default=-1)
        stable = next((o for o, entry in enumerate(log) if entry.state == "open"), len(log))
        seen = log[last].record if last >= 0 else None
        found = [read_found(o, e.record) for o, e in enumerate(log) if o > last and e.record is not None]
        return PartitionTail(place, stable, len(log), None if seen is None else read_stamp(seen.headers), found)


class Evidence:
    def __init__(self, world: World) -> None:
        self._world = world

    def end(self) -> int:
        return 0

    def other_leader_since(self, _offset: int) -> str | None:
        return None

    def is_seen(self, marks: Marks) -> bool:
        return any(self._world.logs[place][offset].state == "seen" for place, offset in marks.items())

    def judge(self, acknowledged: Acknowledged, given_up: tuple[str, int] | None = None) -> Judgement:
        return judge([self._world.tail(place) for place in self._world.logs], acknowledged, given_up)

    def commit_landed(self, acknowledged: Acknowledged, given_up: tuple[str, int] | None) -> None:
        self._world.take()
        self._world.under_way = set(self.judge(acknowledged, given_up).commit)
        self._world.end("seen")


class Writer:
    """A client. What chance gives it: an acknowledged commit, an abort, a lost client with or without a doubt, death."""

    is_opening = is_outdated = False

    def __init__(self, world: World) -> None:
        self._world = world
        self._epoch = 0
        self.marks: Marks = {}

    def open(self, _deadline_s: float) -> None:
        self._epoch = self._world.take()

    def write(
        self, records: Sequence[OutgoingKafkaRecord], token: object, again: Callable[[], Sequence[OutgoingKafkaRecord]]
    ) -> Marks:
        world, self.marks = self._world, {}
        while True:
            self._let_visit()
            self._check()
            fate = world.chance(10)
            reach = len(records) if fate in {0, 1, 2, 3, 4} else 1 + world.chance(len(records))
            self.marks = marks = {(each.topic, 0): world.append(each) for each in records[:reach]}
            self._let_visit()
            if self._epoch != world.epoch and fate < 5:  # the visitor aborted it, perhaps without markers
                raise SessionLost("fenced", Unsettled(token, marks))
            self._check()
            if fate in {0, 1, 2}:  # the commit is done; answered, answered late, or not answered before a death
                world.end("seen")
                if fate == 1:
                    raise SessionLost("no answer", Unsettled(token, marks))
                if fate == 2:
                    raise Killed
                return marks
            if fate == 3:  # the commit did not arrive, and who takes the id next aborts
                raise SessionLost("no answer", Unsettled(token, marks))
            if fate in {4, 5}:
                world.end("aborted")
                records = again()
            elif fate == 6:
                raise SessionLost("fenced", None)
            elif fate == 7:
                raise Killed
            else:
                world.end("aborted")
                if fate == 8:
                    raise Killed
                raise SessionLost("timed out", None)

    def end_open(self, places: Sequence[Place], headers: Sequence[tuple[str, bytes | None]]) -> None:
        self._check()
        for place in places:
            self._world.append(replace(record(place[0], b"-1"), headers=tuple(headers)))
        self._world.end("aborted")

    def close(self) -> None:
        """Nothing."""

    def _let_visit(self) -> None:
        """Another daemon may open the journal, and write nothing."""
        if self._world.chance(12) == 7:
            _opened(_session(self._world))

    def _check(self) -> None:
        if self._epoch != self._world.epoch:
            raise SessionLost("fenced", None)


def _session(world: World) -> JournalSession:
    return JournalSession(lambda: Writer(world), Evidence(world), A, 60, 60)  # type: ignore[arg-type,return-value]


CHANCES = st.lists(st.sampled_from([0] * 12 + [*range(12)]), min_size=40, max_size=60)
BATCHES = st.lists(st.sets(st.sampled_from("ab"), min_size=1), min_size=4, max_size=8)


@settings(max_examples=1_000, deadline=None)
@given(CHANCES, BATCHES)
def test_whatever_markers_get_lost_each_acknowledged_batch_is_seen_once_and_in_order(
    chances: list[int], batches: list[set[str]]
) -> None:
    world = World(lambda below: chances.pop(0) % below if chances else 0)
    acknowledged: list[int] = []
    places: Mapping[int, set[str]] = dict(enumerate(batches))
    todo = list(places)
    while todo:
        session = _session(world)
        with contextlib.suppress(Killed):
            _opened(session)
            while todo:  # a batch that its daemon did not survive is not written by the next one
                token = todo.pop(0)
                records = [record(topic, str(token).encode()) for topic in sorted(places[token])]
                session.write(lambda _mark, records=records: records, token)  # type: ignore[misc]
                acknowledged.append(token)
    chances.clear()
    _opened(_session(world))
    for place in world.logs:
        seen = world.seen(place)
        wanted = [token for token in acknowledged if place[0] in places[token]]
        assert seen == sorted(set(seen)), "each once, in order"
        assert set(wanted) <= set(seen), "nothing acknowledged is lost"
        assert world.tail(place).stable == len(world.logs[place]), "no reader waits"
    for token, topics in places.items():
        assert {token in world.seen((topic, 0)) for topic in topics} in ({True}, {False}), "whole or not at all"


class SharedWorld(World):
    """Others write behind what was committed."""

    def end(self, how: str) -> None:
        places = self.under_way
        super().end(how)
        for place in places if how == "seen" else ():
            self.logs[place].append(Entry(record(place[0], b"-1"), "seen"))


def test_what_landed_without_an_answer_is_found_behind_records_of_others() -> None:
    chances = [0, 1]  # no visitor; the commit is done and answered too late
    world = SharedWorld(lambda _below: chances.pop(0) if chances else 0)
    session = _session(world)
    session.open()
    session.write(lambda _mark: [record("a", b"0")], "token")
    assert world.seen(A) == [0, -1]


def _opened(session: JournalSession) -> None:
    while True:
        try:
            return session.open()
        except ClusterProblem:
            continue

"""What is judged of the journal's last transactions from what lies in its topics, and what a session makes of it: every
way in which markers get lost, clients end and leaders follow each other, on a model of a broker.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.adapters.kafka.journal_judgement import judge
from recoveryd.adapters.kafka.journal_stamps import (
    COPY_HEADER,
    LANDED_HEADER,
    LEADER_HEADER,
    STAMP_HEADER,
    HiddenRecord,
    Stamp,
    make_copy,
    read_found,
    read_stamp,
)
from recoveryd.adapters.kafka.journal_tails import LOOK_BACK, PartitionTail, Place, make_tail
from recoveryd.errors import ClusterProblem
from tests.contract.journal_world import (
    FEW,
    NOBODYS,
    OTHERS,
    OURS,
    A,
    B,
    C,
    Entry,
    Evidence,
    Killed,
    Log,
    World,
    Writer,
    opened,
    record,
    session_in,
    written,
)

ONE, TWO = Stamp("s", 1, 1, 2), Stamp("s", 2, 1, 2)


def tail(place: Place, stable: int, end: int, seen: Stamp | None = None, **at: Stamp | None) -> PartitionTail:
    """`at`: stamps by offset, as `_3=...`."""
    found = [HiddenRecord(int(offset[1:]), stamp) for offset, stamp in at.items()]
    return PartitionTail(place, stable, end, frozenset([seen] if seen else []), found)


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
        ("landed, taken away by the abort of the next one", [tail(A, 11, 11, None, _8=ONE, _9=TWO), tail(B, 5, 5, ONE)], ([], [], [8])),
        ("landed, and something dead is open behind it", [tail(A, 8, 10, None, _8=ONE, _9=TWO), tail(B, 5, 5, ONE)], ([], [A], [])),
        ("nobody's", [tail(A, 8, 9, None, _8=None), tail(B, 5, 5, ONE)], ([], [A], [])),
        ("whole and open, and others wrote behind it and aborted", [tail(A, 8, 11, None, _8=ONE, _9=None), tail(B, 3, 6, None, _3=ONE, _4=None)], ([A, B], [], [])),
        ("landed, then half of what did not, then others", [tail(A, 8, 12, None, _8=ONE, _9=TWO, _10=None), tail(B, 5, 5, ONE)], ([], [A], [])),
        ("the same behind what others left open", [tail(A, 5, 12, None, _5=None, _8=ONE, _9=TWO, _10=None), tail(B, 5, 5, ONE)], ([], [A], [])),
        ("half of it is there, and others wrote behind it", [tail(A, 8, 11, None, _8=ONE, _9=None), tail(B, 3, 3)], ([], [A], [])),
        ("with a marker behind it that is not decided yet", [tail(A, 7, 10, None, _7=None, _8=ONE), tail(B, 5, 5)], ([], [A], [])),
    ],
)  # fmt: skip
def test_what_is_open_or_was_taken_away_is_judged_by_its_stamp(
    what: str, tails: list[PartitionTail], expected: tuple[list[Place], list[Place], list[int]]
) -> None:
    found = judge(tails, {})
    assert (found.commit, found.abort, [each.offset for _, each in found.lost]) == expected, what


def test_a_copy_that_was_taken_away_too_stands_for_what_it_was_to_bring_back() -> None:
    gone = tail(A, 13, 13, None, _8=ONE, _10=replace(TWO, count=1), _11=replace(TWO, number=3))
    copy = replace(gone.found[1], copy_of=8)
    twice = replace(gone, found=[gone.found[0], copy, gone.found[2]])
    assert judge([twice, tail(B, 5, 5, ONE)], {}).lost == [(A, twice.found[1])]
    lost = replace(twice.found[1], told=(("s", 1),))
    again = make_copy(lost, replace(record("a", b"10"), headers=(("x", None), TWO.header(), (COPY_HEADER, b"8"))))
    assert again == replace(
        record("a", b"10"),
        headers=(("x", None), (COPY_HEADER, b"10"), (LANDED_HEADER, b"s.1"), (LANDED_HEADER, b"s.2")),
    )
    assert read_found(14, (*again.headers, TWO.header())) == HiddenRecord(14, TWO, 10, (("s", 1), ("s", 2)))


@pytest.mark.parametrize(("series", "brought_back"), [("s", []), ("t", [0])])
def test_what_an_earlier_release_went_on_without_is_not_brought_back_behind_its_records(
    series: str, brought_back: list[int]
) -> None:
    """It led after the series `s` and before the series `t`."""
    world = World(lambda _below: 0)
    mark = replace(record("a"), headers=((LEADER_HEADER, b"earlier"),))

    def stamped(topic: str, number: int, state: str) -> Entry:
        stamp = Stamp(series, number, 1, 1)
        return Entry(replace(record(topic, b"0"), headers=(stamp.header(),)), state, OURS)

    here, there = stamped("b", 1, "aborted"), stamped("a", 2, "seen")  # so the first landed too
    old = Entry(mark, "seen", OURS)
    world.logs[A] = [there, old] if series == "s" else [old, there]
    world.logs[B] = [here, Entry(None, "aborted", OURS)]
    tails = [make_tail(place, Log(world, place)) for place in world.logs]
    assert [found.offset for _, found in judge(tails, {}).lost] == brought_back
    assert [found.offset for _, found in judge(tails, {series: 1}).lost] == [0], "we lead now"


def test_what_the_session_was_told_counts_where_no_later_number_was_seen() -> None:
    gone = [tail(A, 10, 10, None, _8=ONE), tail(B, 5, 5)]
    assert [each.offset for _, each in judge(gone, {"s": 1}).lost] == [8]
    assert judge(gone, {"other": 1}).lost == []


def test_what_is_known_not_to_have_landed_is_ended_though_it_looks_whole() -> None:
    whole = [tail(A, 8, 9, None, _8=ONE), tail(B, 3, 4, None, _3=ONE)]
    judged = judge(whole, {}, ("s", 1))
    assert (judged.commit, judged.abort, judged.landed, judged.unmarked) == ([], [A, B], set(), {A, B})


def test_what_others_wrote_hides_neither_what_was_taken_away_nor_what_was_seen_last() -> None:
    world = World(lambda _below: 0)
    ours = [replace(record("a"), headers=(stamp.header(),)) for stamp in (ONE, TWO)]
    others = Entry(record("a"), "seen", OTHERS)
    world.logs[A] = [Entry(ours[0], "seen", OURS), others, Entry(ours[1], "aborted", OURS), *[others] * 10]
    found = make_tail(A, Log(world, A))
    assert (found.seen, found.found) == ({ONE}, [HiddenRecord(2, TWO)])
    world.logs[A] += [others] * LOOK_BACK
    assert make_tail(A, Log(world, A)).found == [], "no further back than that"


def test_what_the_open_transaction_of_others_hides_is_waited_for_and_not_written_twice() -> None:
    chances = [0, 1]  # no visitor; the commit is done and answered too late
    world = World(lambda _below: chances.pop(0) if chances else 0)
    session = opened(world)
    world.logs[A].append(Entry(record("a", NOBODYS), "open", OTHERS))
    with pytest.raises(ClusterProblem, match="others have one open"):
        session.write(lambda _mark: [record("a", b"0")], "token")
    world.end_others()
    session.write(lambda _mark: [record("a", b"0")], "token")
    assert world.seen(A) == [0]


def test_word_of_what_landed_is_left_where_no_abort_takes_it_away() -> None:
    chances = [0, 0, 2]  # the word is left; the commit that follows gets no answer, and who opens next aborts it
    world = World(lambda _below: chances.pop(0) if chances else 0, frozenset({"half"}))
    for place in (A, B):
        world.append(replace(record(place[0], b"0"), headers=(ONE.header(),)))
    world.under_way = set()  # its coordinator calls it committed
    opened(world)
    assert [each.state for each in world.logs[A]][:2] == ["aborted", "aborted"], "the record and the marker of the next"
    assert world.seen(A) == world.seen(B) == [0], "brought back"
    [word, _marker] = world.logs[C]
    assert (word.state, word.record.headers[1]) == ("aborted", (LANDED_HEADER, b"s.1"))


NOT_OURS = ((LANDED_HEADER, b"s.999"), (COPY_HEADER, b"0"))


def test_only_what_the_journal_says_itself_is_word_of_what_landed() -> None:
    about = ("recoveryd-error-code", b"RCV-1001")
    assert read_found(3, (*NOT_OURS, about, TWO.header())) == HiddenRecord(3, TWO), "of a dead letter"
    assert read_found(3, NOT_OURS) == HiddenRecord(3, None), "of others"
    copy = ((LANDED_HEADER, b"s.998"), about, (COPY_HEADER, b"1"), (LANDED_HEADER, b"t.4"), TWO.header())
    assert read_found(3, copy) == HiddenRecord(3, TWO, 1, (("t", 4),))
    assert read_found(3, (ONE.header(), (LANDED_HEADER, b"t.4"))) == HiddenRecord(3, ONE, None, (("t", 4),))


def test_a_batch_that_never_landed_is_written_whatever_a_dead_letter_says_of_it() -> None:
    chances: list[int] = []
    world = World(lambda _below: chances.pop(0) if chances else 0)
    session = opened(world)
    series, number = session._series.transaction
    told = (LANDED_HEADER, f"{series}.{number + 1_000}".encode())
    headers = (told, ("recoveryd-error-code", b"RCV-1001"), Stamp("before", 1, 1, 1).header())
    world.logs[C].append(Entry(replace(record("c", NOBODYS), headers=headers), "seen", OURS))
    chances += [0, 3]  # no visitor; the commit does not arrive, and who takes the id next aborts
    session.write(lambda _mark: [record("a", b"0")], "token")
    assert world.seen(A) == [0]


def test_a_lost_record_is_brought_back_whatever_a_dead_letter_says_of_it() -> None:
    world = World(lambda _below: 0)
    letter = Entry(replace(record("a"), headers=((COPY_HEADER, b"0"), ("x", b""), TWO.header())), "aborted", OURS)
    lost = Entry(replace(record("a"), headers=(replace(ONE, count=1).header(),)), "aborted", OURS)
    later = replace(TWO, number=3, count=1)
    world.logs[A] = [lost, letter]
    world.logs[B] = [Entry(replace(record("b"), headers=(later.header(),)), "seen", OURS)]
    tails = [make_tail(place, Log(world, place)) for place in world.logs]
    assert [found.offset for _, found in judge(tails, {}).lost] == [0, 1]


def test_of_a_batch_that_was_tried_for_long_the_last_attempts_are_looked_at() -> None:
    chances = [*[0, 4, 0, 0] * 3 * FEW, 0, 0, 0, 0]  # no visitor, aborted, no visitor, a marker
    chances[-3] = 1  # the commit is done and answered too late
    world = World(lambda _below: chances.pop(0) if chances else 0)
    session = opened(world)
    written(world, session, [record("a", b"0")], "token")
    assert world.seen(A) == [0]
    written(world, session, [record("a", b"1")], "other")
    assert world.seen(A) == [0, 1]


class SlowWriter(Writer):
    """Its first answers come late."""

    def __init__(self, world: World, late: int) -> None:
        super().__init__(world)
        self._late = late
        self.is_opening = True
        self.is_closed = False

    def open(self, deadline_s: float) -> None:
        if self._late:
            self._late -= 1
            raise ClusterProblem("no answer")
        super().open(deadline_s)
        self.is_opening = False

    def close(self) -> None:
        self.is_closed = True


def test_a_client_that_is_still_opening_is_asked_again_and_not_replaced() -> None:
    chances = [0, 3, 0, 1]  # the first commit does not arrive, and the next holder's abort marker is lost
    world = World(lambda _below: chances.pop(0) if chances else 0)
    made = [SlowWriter(world, late) for late in (0, 0, 2)]
    left = list(made)
    session = session_in(world, lambda: left.pop(0))
    session.open()
    for _ in range(2):  # what looks whole gets a marker, and the client after that takes its time
        with pytest.raises(ClusterProblem):
            session.write(lambda _mark: [record("a", b"0")], "token")
    session.write(lambda _mark: [record("a", b"0")], "token")
    assert world.seen(A) == [0]
    assert [writer.is_closed for writer in made] == [True, True, False]


def test_a_record_that_came_to_lie_where_ours_was_is_not_ours() -> None:
    world = World(lambda _below: 0)
    world.logs[A] = [Entry(replace(record("a"), headers=(TWO.header(),)), "seen", OURS)]
    assert Evidence(world).is_seen(TWO.transaction, [{A: 0}])
    assert not Evidence(world).is_seen(ONE.transaction, [{A: 0}])


def test_nobody_leads_while_records_wait_that_no_marker_of_ours_ends() -> None:
    world = World(lambda _below: 0)
    for place in (A, B):
        world.append(replace(record(place[0], b"0"), headers=(ONE.header(),)))
    world.under_way, world.producer = set(), world.producer + 1  # Kafka gave up the producer id that wrote them
    session = session_in(world)
    for _ in range(2):
        with pytest.raises(ClusterProblem) as caught:
            session.open()
        assert "kafka-transactions.sh" in caught.value.hint
    assert not session.is_open
    markers = [entry for entry in world.logs[A] if entry.record is None]
    assert len(markers) <= 4, "two at most each time"
    world.abort_hanging()
    session.open()
    assert world.seen(A) == world.seen(B) == [0], "brought back"


CHANCES = st.lists(st.sampled_from([0] * 12 + [*range(12)]), min_size=40, max_size=60)
BATCHES = st.lists(st.sets(st.sampled_from("ab"), min_size=1), min_size=4, max_size=8)
TROUBLES = ["no others", "probes", "half", "half plain committed", "expiry half probes plain"]


@pytest.mark.parametrize("troubles", TROUBLES)
@settings(max_examples=300, deadline=None)
@given(CHANCES, BATCHES)
def test_whatever_markers_get_lost_each_acknowledged_batch_is_seen_once_and_in_order(
    troubles: str, chances: list[int], batches: list[set[str]]
) -> None:
    world = World(lambda below: chances.pop(0) % below if chances else 0, frozenset(troubles.split()))
    acknowledged: list[int] = []
    places: Mapping[int, set[str]] = dict(enumerate(batches))
    todo = list(places)
    while todo:
        with contextlib.suppress(Killed):
            session = opened(world)
            while todo:  # a batch that its daemon did not survive is not written by the next one
                token = todo.pop(0)
                records = [record(topic, str(token).encode()) for topic in sorted(places[token])]
                written(world, session, records, token)
                acknowledged.append(token)
        world.disturb()
    chances.clear()
    opened(world)
    for place in world.logs:
        seen = world.seen(place)
        wanted = [token for token in acknowledged if place[0] in places[token]]
        assert seen == sorted(set(seen)), "each once, in order"
        assert set(wanted) <= set(seen), "nothing acknowledged is lost"
        assert world.stable(place) == len(world.logs[place]), "no reader waits"
    for token, topics in places.items():
        assert {token in world.seen((topic, 0)) for topic in topics} in ({True}, {False}), "whole or not at all"


class SharedWorld(World):
    """Others write behind what was committed."""

    def end(self, how: str) -> None:
        places = self.under_way
        super().end(how)
        for place in places if how == "seen" else ():
            self.logs[place].append(Entry(record(place[0], NOBODYS), "seen", OTHERS))


def test_what_landed_without_an_answer_is_found_behind_records_of_others() -> None:
    chances = [0, 1]  # no visitor; the commit is done and answered too late
    world = SharedWorld(lambda _below: chances.pop(0) if chances else 0)
    session = session_in(world)
    session.open()
    session.write(lambda _mark: [record("a", b"0")], "token")
    assert world.seen(A) == [0]

"""Which topics a consumer takes for held, from records that the daemon really writes."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from recoveryd.client.book import HoldBook
from recoveryd.holds.known import Holds
from recoveryd.holds.model import Hold
from recoveryd.kernel.states import CommandRef, State
from tests.builders.core import NOW_MS, STATUS, command
from tests.builders.world import World

HOLD = Hold("h1", State.RUNNING, "held", 1, NOW_MS, NOW_MS, CommandRef("c", "//ops/a", "r"), "main", ("a", "b"))


def book_of(*holds: Hold) -> HoldBook:
    book = HoldBook()
    for hold in holds:
        book.apply(*STATUS.encode(hold))
    return book


def held(book: HoldBook, *topics: str) -> dict[str, set[str]]:
    return {topic: set(ids) for topic, ids in book.held(topics or ("a", "b", "c")).items()}


def test_a_running_hold_holds_its_topics_and_says_whose_it_is() -> None:
    book = book_of(HOLD, replace(HOLD, id="h2", topics=("b",)))
    assert held(book) == {"a": {"h1"}, "b": {"h1", "h2"}}
    known = book.get("h1")
    assert known is not None
    assert (known.owner, known.reason) == ("//ops/a", "r")


def test_it_ends_with_its_state_its_topics_and_its_record() -> None:
    for state in (State.COMPLETED, State.STOPPED, State.EXPIRED):
        assert held(book_of(HOLD, replace(HOLD, state=state))) == {}
    assert held(book_of(HOLD, replace(HOLD, topics=("a",)))) == {"a": {"h1"}}
    book = book_of(HOLD)
    book.apply(b"h1", None)
    assert held(book) == {}


def test_a_hold_on_another_cluster_is_none_of_ours() -> None:
    assert held(book_of(replace(HOLD, cluster="dr"))) == {}
    book = HoldBook("dr")
    book.apply(*STATUS.encode(replace(HOLD, cluster="dr")))
    assert held(book) == {"a": {"h1"}, "b": {"h1"}}


def test_other_records_of_the_topic_hold_nothing() -> None:
    world = World()
    world.feed(command("replay"))
    book = HoldBook()
    book.apply(*STATUS.encode(world.recovery()))
    for key, value in (
        (b"_daemon", b'{"applied_control_offset":5}'),
        (None, b"x"),
        (b"x", b'{"kind":"hold'),
        (b"y", b""),
    ):
        book.apply(key, value)
    assert held(book, "flights", "flights.v2") == {}


def test_a_record_that_cannot_be_read_leaves_what_was_known() -> None:
    book = book_of(HOLD)
    book.apply(b"h1", b'{"kind":"hold","state":"running","hold":{"cluster":"main"}}')
    assert held(book) == {"a": {"h1"}, "b": {"h1"}}


_holds = st.builds(
    replace,
    st.just(HOLD),
    id=st.sampled_from(["h1", "h2"]),
    state=st.sampled_from([State.RUNNING, State.COMPLETED]),
    topics=st.sets(st.sampled_from("abc"), min_size=1).map(lambda found: tuple(sorted(found))),
)


def newest(records: Iterable[Hold]) -> list[Hold]:
    return list({hold.id: hold for hold in records}.values())


@given(st.lists(_holds, max_size=8))
def test_it_agrees_with_the_daemon_also_after_compaction(records: list[Hold]) -> None:
    daemons = {topic: {by.hold for by in found} for (_, topic), found in Holds.of(newest(records)).held.items()}
    assert held(book_of(*records)) == daemons
    assert held(book_of(*newest(records))) == daemons

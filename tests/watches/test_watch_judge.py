"""Whether the condition of a watch holds: a case for each way in which it does, and for each false zero."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.live.lag.book import Reader
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.spec import UntilOffsets, WatchSpec
from tests.builders.watch_world import CAUGHT_UP, PARAMS, PERIOD_MS, Topic, WatchWorld

LONG_ENOUGH = 14  # looks: half a window until a verdict, then three over thirty seconds


def two(committed: dict[int, int | None], ends: dict[int, int], **more: object) -> dict[str, Topic]:
    return {"flights": Topic(committed, ends, **more)}  # type: ignore[arg-type]


THERE: dict[str, dict[str, Topic]] = {
    "all read, members there": two({0: 100, 1: 50}, {0: 100, 1: 50}),
    "all read, the application has left": two({0: 100, 1: 50}, {0: 100, 1: 50}, is_active=False),
    "all read, members not known": two({0: 100, 1: 50}, {0: 100, 1: 50}, is_active=None),
    "a partition that never held a record has no commit": two({0: 100, 1: None}, {0: 100, 1: 0}),
    "all read, the start was deleted": two({0: 100, 1: 50}, {0: 100, 1: 50}, starts={0: 90}),
}
NOT_THERE: dict[str, dict[str, Topic]] = {
    "never committed": two({}, {0: 100, 1: 50}),
    "never committed, nothing there to read": two({}, {0: 0, 1: 0}),
    "one partition never committed": two({0: 100}, {0: 100, 1: 50}),
    "commit of minus one": two({0: 100, 1: -1}, {0: 100, 1: 50}),
    "one record left": two({0: 100, 1: 49}, {0: 100, 1: 50}),
    "the sum would hide it": two({0: 200, 1: 0}, {0: 150, 1: 50}),
    "commit past the end: another topic": two({0: 101, 1: 50}, {0: 100, 1: 50}),
    "the broker does not answer for one": two({0: 100, 1: 50}, {0: 100, 1: 50}, hidden={1}),
    "deleted before it was read": two({0: 100, 1: 20}, {0: 100, 1: 50}, starts={1: 30}),
    "all expired: lag looks like zero": two({0: 100, 1: 20}, {0: 100, 1: 50}, starts={1: 50}),
    "ends asked for before positions": two({0: 100, 1: 50}, {0: 100, 1: 50}, ends_first=True),
    "left behind by an application that left": two({0: 100, 1: 10}, {0: 100, 1: 50}, is_active=False),
    "a topic without partitions": two({}, {}),
}


@pytest.mark.parametrize("name", list(THERE))
def test_a_group_that_is_there_and_stays_fulfils_the_watch(name: str) -> None:
    world = WatchWorld(THERE[name])
    world.start()
    world.looks(LONG_ENOUGH)
    assert world.watch().state is State.COMPLETED


@pytest.mark.scenario("S-WIKI-4b")
@pytest.mark.parametrize("name", list(NOT_THERE))
def test_a_group_that_only_looks_so_never_does(name: str) -> None:
    world = WatchWorld(NOT_THERE[name])
    world.start()
    world.looks(3 * LONG_ENOUGH)
    assert (world.watch().state, world.watch().progress.evaluations) == (State.RUNNING, 0)


def test_a_group_that_lags_by_less_than_what_arrives_meanwhile_is_caught_up() -> None:
    world = WatchWorld(two({0: 1_000}, {0: 1_005}))
    world.start()
    for _ in range(LONG_ENOUGH):
        topic = world.topics["flights"]
        topic.ends, topic.committed = {0: topic.ends[0] + 50}, {0: topic.ends[0] - 30}
        world.look()
    assert world.watch().state is State.COMPLETED


@pytest.mark.scenario("S-WIKI-4b")
@pytest.mark.parametrize("left", [100, 600])
@pytest.mark.parametrize("is_active", [True, False])
def test_a_group_that_stopped_behind_the_end_is_never_there_however_much_was_written_before(
    *, is_active: bool, left: int
) -> None:
    """Writers and readers stop at once, as in an incident."""
    world = WatchWorld(two({0: 1_000 - left}, {0: 1_000}))
    world.start(WatchSpec("main", "reports", ("flights",), UntilOffsets({"flights": {0: 10**9}})), "w0")
    topic = world.topics["flights"]
    for _ in range(60):
        topic.ends, topic.committed = {0: topic.ends[0] + 500}, {0: topic.ends[0] + 500 - left}
        world.look()
    topic.is_active = is_active
    world.start()
    world.looks(60)
    assert (world.watch().state, world.watch().progress.evaluations) == (State.RUNNING, 0)
    assert "wait" in world.watch().why


def test_a_marker_at_the_tail_is_no_lag_of_a_group_of_which_the_config_says_that_it_reads_committed_records() -> None:
    reads = replace(PARAMS.live.lag, is_read_committed=True)
    live = replace(PARAMS.live, lags={Reader("main", "flights", "reports"): reads})
    for params, state in ((PARAMS, State.RUNNING), (replace(PARAMS, live=live), State.COMPLETED)):
        world = WatchWorld(two({0: 99}, {0: 100}), params)
        world.start()
        world.looks(LONG_ENOUGH)
        assert world.watch().state is state


def transactional(open_s: int, looks: int) -> WatchWorld:
    """A watch of a group that reads committed records, and has read all it can, of a topic that is written in
    transactions of so many seconds; 100 records come in one.
    """
    reads = replace(PARAMS.live.lag, is_read_committed=True)
    live = replace(PARAMS.live, lags={Reader("main", "flights", "reports"): reads})
    world = WatchWorld(two({0: 0}, {0: 0}), replace(PARAMS, live=live))
    topic = world.topics["flights"]
    world.start()
    for at_s in range(0, PERIOD_MS // 1_000 * looks, PERIOD_MS // 1_000):
        stable = 100 * (at_s // open_s * open_s)
        topic.ends, topic.stable, topic.committed = {0: 100 * at_s}, {0: stable}, {0: stable}
        world.look()
    return world


@pytest.mark.scenario("S-WIKI-4b")
def test_a_group_at_a_last_stable_offset_that_stands_while_the_log_goes_on_is_not_there() -> None:
    """What an open transaction keeps from it is no less there to be read."""
    world = transactional(open_s=10_000, looks=60)
    assert (world.watch().state, world.watch().progress.evaluations) == (State.RUNNING, 0)
    assert "an open transaction holds the last stable offset, 29,000 records wait" in world.watch().why


@pytest.mark.parametrize(("open_s", "looks"), [(1, 14), (6, 16), (60, 40)])
def test_a_group_that_waits_for_transactions_as_long_as_usual_is_there(open_s: int, looks: int) -> None:
    assert transactional(open_s, looks).watch().state is State.COMPLETED


@pytest.mark.scenario("S-WIKI-4b")
def test_a_group_that_commits_rarely_is_there_between_two_commits_too() -> None:
    """As one of Kafka Streams, each 30 s."""
    world = WatchWorld(two({0: 1_000}, {0: 1_000}))
    topic = world.topics["flights"]
    world.start()
    for at_s in range(0, 180, PERIOD_MS // 1_000):
        topic.ends = {0: topic.ends[0] + 500}
        if at_s % 30 == 0:
            topic.committed = dict(topic.ends)
        world.look()
    assert world.watch().state is State.COMPLETED


def test_a_group_that_falls_behind_on_a_live_topic_is_not() -> None:
    world = WatchWorld(two({0: 1_000}, {0: 100_000}))
    world.start()
    for _ in range(3 * LONG_ENOUGH):
        topic = world.topics["flights"]
        topic.ends, topic.committed = {0: topic.ends[0] + 500}, {0: (topic.committed[0] or 0) + 300}
        world.look()
    assert world.watch().state is State.RUNNING


def test_one_record_left_for_ever_counts_as_zero_only_when_the_command_says_so() -> None:
    """A transaction marker at the tail is never committed by some clients."""
    world = WatchWorld(two({0: 99}, {0: 100}))
    world.start()
    world.start(CAUGHT_UP, "w2", tolerance_records=1)
    world.looks(LONG_ENOUGH)
    assert [world.watch(name).state for name in ("w1", "w2")] == [State.RUNNING, State.COMPLETED]


@pytest.mark.scenario("S-WIKI-4b")
def test_three_looks_within_less_than_thirty_seconds_are_not_enough() -> None:
    world = WatchWorld(two({0: 100}, {0: 100}))
    world.start()
    while world.watch().progress.evaluations == 0:
        world.look(after_ms=2_000)
    for _ in range(12):
        world.look(after_ms=2_000)
        assert world.watch().state is State.RUNNING
    world.looks(3)
    assert world.watch().state is State.COMPLETED
    assert world.watch().stop is not None
    assert int(str(world.watch().stop.evidence["span_ms"])) >= 30_000


def counted(world: WatchWorld) -> int:
    """How many evaluations in a row count so far."""
    span = world.state.of(WATCHES).seen_of("w1").span
    return 0 if span is None else span.count


def look_until_counted(world: WatchWorld, count: int) -> None:
    for _ in range(20):
        world.look()
        if counted(world) == count:
            return
    raise AssertionError(world.watch().why)


def _rewind(topic: Topic) -> None:
    topic.committed[0] = 40


def _come_back(topic: Topic) -> None:
    topic.committed[0] = 100


def _leave(topic: Topic) -> None:
    topic.is_active = False


def _hide(topic: Topic) -> None:
    topic.hidden = {0}


def _show(topic: Topic) -> None:
    topic.hidden = set()


def _nothing(_topic: Topic) -> None: ...


@pytest.mark.parametrize(
    ("disturb", "restore", "looks"),
    [(_rewind, _come_back, 1), (_leave, _nothing, 1), (_hide, _show, 3)],
    ids=["rewind", "member", "older than two periods"],
)
def test_whatever_disturbs_the_span_starts_it_over(
    disturb: Callable[[Topic], None], restore: Callable[[Topic], None], looks: int
) -> None:
    world = WatchWorld(two({0: 100}, {0: 100}))
    world.start()
    look_until_counted(world, 4)
    disturb(world.topics["flights"])
    world.looks(looks)
    assert counted(world) == 0
    restore(world.topics["flights"])
    world.looks(2)
    assert world.watch().state is State.RUNNING
    world.looks(20)
    assert world.watch().state is State.COMPLETED


def test_a_rewind_within_the_tolerance_starts_it_over_too() -> None:
    world = WatchWorld(two({0: 100}, {0: 100}))
    world.start(replace(CAUGHT_UP, tolerance_records=50))
    look_until_counted(world, 4)
    world.topics["flights"].committed[0] = 60
    world.look()
    assert counted(world) == 0


def test_a_gap_in_the_looks_starts_over_because_nobody_knows_what_was_in_it() -> None:
    world = WatchWorld(two({0: 100}, {0: 100}))
    world.start()
    look_until_counted(world, 4)
    world.look(after_ms=4 * PERIOD_MS)
    assert world.watch().state is State.RUNNING
    assert counted(world) == 1


def test_of_several_topics_all_have_to_be_there() -> None:
    world = WatchWorld({"a": Topic({0: 5}, {0: 5}), "b": Topic({0: 4}, {0: 9})})
    world.start(replace(CAUGHT_UP, topics=("a", "b")))
    world.looks(LONG_ENOUGH)
    assert world.watch().state is State.RUNNING
    world.catch_up()
    world.looks(LONG_ENOUGH)
    assert world.watch().state is State.COMPLETED


def test_a_topic_that_is_not_looked_at_is_not_there() -> None:
    world = WatchWorld({"a": Topic({0: 5}, {0: 5}), "b": Topic({0: 9}, {0: 9})})
    world.start(replace(CAUGHT_UP, topics=("a", "b")))
    for _ in range(3 * LONG_ENOUGH):
        world.look("a")
    assert world.watch().state is State.RUNNING

"""What was found of a reader is kept while only time passes, and is then what would be found again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recoveryd.live.lag.evaluate import FOR_EVER_MS, same_until_ms
from recoveryd.live.lag.window import LagParams, LagSample, Window, with_sample
from recoveryd.watches import judging
from recoveryd.watches.clauses import Clause, sum_of, sum_of_all
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.judge import judge_caught_up, judge_offsets
from recoveryd.watches.spec import UntilOffsets
from tests.builders.core import NOW_MS
from tests.builders.watch_world import CAUGHT_UP, Topic, WatchWorld

STEP_MS = st.sampled_from([5_000, 5_000, 5_000, 700, 1_500, 12_000])
OFFSET = st.integers(0, 40)
LOOK = st.tuples(
    STEP_MS,
    st.one_of(st.none(), OFFSET),
    OFFSET,
    st.one_of(st.none(), OFFSET),
    st.sampled_from([True, True, False, None]),
    st.sampled_from([50, 50, -50, 900]),  # how much later than the position the end was asked for
)
PARAMS = st.builds(
    LagParams,
    is_read_committed=st.booleans(),
    blocked_after_ms=st.sampled_from([20_000, 600_000]),
    slots=st.sampled_from([4, 10]),
)


def window_of(looks: list[tuple[int, int | None, int, int | None, bool | None, int]], params: LagParams) -> Window:
    window, at_ms, highest = Window(), NOW_MS, 0
    for step_ms, position, more, stable, is_active, later_ms in looks:
        at_ms, highest = at_ms + step_ms, highest + more
        held = None if stable is None else max(0, highest - stable)
        place = None if position is None else max(0, highest - position)
        look = LagSample(place, at_ms, highest, at_ms + later_ms, 0, held, "t", is_active)
        window = with_sample(window, look, at_ms + 1_000, params)
    return window


def found_at(now_ms: int, windows: Mapping[int, Window], params: LagParams) -> list[tuple[Clause, ...]]:
    return [
        judge_caught_up("t", windows, windows, windows, now_ms, params),
        judge_offsets("t", windows, dict.fromkeys(windows, 20), frozenset(), now_ms, params),
    ]


@settings(max_examples=400, deadline=None)
@given(st.lists(LOOK, max_size=14), PARAMS, st.integers(-30_000, 60_000), st.floats(0, 1))
@example([(5_000, 0, 1, None, True, 50)] * 6, LagParams(), 20_500, 1.0)
@example([(5_000, 0, 1, None, True, 50)] * 6, LagParams(), 20_501, 1.0)
@example(
    [(5_000, 5, 10, 5, True, 50), *[(5_000, 5, 0, 5, True, 50)] * 3],
    LagParams(is_read_committed=True, blocked_after_ms=20_000, slots=4),
    2_000,
    1.0,
)
def test_nothing_else_would_be_found_until_the_moment_that_is_told(
    looks: list[tuple[int, int | None, int, int | None, bool | None, int]],
    params: LagParams,
    after_ms: int,
    part: float,
) -> None:
    bare = [(step_ms, None, 0, None, is_active, later_ms) for step_ms, _, _, _, is_active, later_ms in looks]
    windows = {0: window_of(looks, params), 1: window_of(bare, params)}
    now_ms = NOW_MS + sum(look[0] for look in looks) + after_ms
    until_ms = min(same_until_ms(window, now_ms, params) for window in windows.values())
    assert until_ms > now_ms
    found, last_ms = found_at(now_ms, windows, params), min(until_ms - 1, now_ms + 10_000_000)
    for at_ms in (last_ms, now_ms + round(part * (last_ms - now_ms))):
        assert found_at(at_ms, windows, params) == found


def test_what_is_fresh_is_kept_until_it_is_old_and_then_for_each_second_of_its_age() -> None:
    params = LagParams()
    window = window_of([(5_000, 0, 1, None, True, 50)] * 8, params)
    old_ms = window.seen_ms + 2 * params.period_ms + 1
    assert same_until_ms(window, window.seen_ms + 60, params) == old_ms
    moments, at_ms = [], old_ms
    while len(moments) < 4:
        at_ms = same_until_ms(window, at_ms, params)
        moments.append(at_ms - window.seen_ms)
    assert moments == [10_051, 10_501, 11_500, 12_501], "the end is 50 ms younger"
    assert same_until_ms(Window(), at_ms, params) == FOR_EVER_MS


def kept_of(world: WatchWorld) -> dict[str, bool]:
    return {reader.topic: found.holds for reader, found in world.state.of(WATCHES).seen_of("w1").judged.items()}


@pytest.mark.parametrize("change", [{"is_active": False}, {"committed": {0: 49}}])
def test_what_changed_with_a_look_counts_at_this_look_only(change: dict[str, Any]) -> None:
    world = WatchWorld({name: Topic({0: 50}, {0: 50}) for name in ("a", "b")})
    world.start(replace(CAUGHT_UP, topics=("a", "b"), tolerance_records=5))
    world.looks(6)
    assert kept_of(world) == {"a": True, "b": True}
    vars(world.topics["a"]).update(change)
    world.look("a")
    assert kept_of(world) == {"a": False, "b": True}
    world.feed(world.sampled("b"))
    assert kept_of(world) == {"a": True, "b": True}


LIFE = st.lists(
    st.tuples(
        st.sampled_from([5_000, 5_000, 700, 12_000, 20_000]),
        st.sampled_from("abc"),
        st.sampled_from(["reads", "reads", "all", "back", "write", "leave", "come", "hide", "show"]),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    ),
    min_size=10,
    max_size=40,
)


def lived(life: list[tuple[int, str, str, list[str]]]) -> list[object]:
    """What is decided on two watches of a group."""
    world = WatchWorld({name: Topic({0: 0, 1: 0}, {0: 60, 1: 40}) for name in "abc"})
    topics, decided = tuple(world.topics), []
    world.start(replace(CAUGHT_UP, topics=topics, tolerance_records=2))
    world.start(
        replace(CAUGHT_UP, topics=topics, until=UntilOffsets({topic: {0: 50, 1: 40} for topic in topics})), "w2"
    )
    for after_ms, name, what, looks in life:
        topic = world.topics[name]
        at = {p: offset or 0 for p, offset in topic.committed.items()}
        match what:
            case "reads" | "back":
                more = 20 if what == "reads" else -10
                topic.committed = {p: min(topic.ends[p], max(0, at[p] + more)) for p in at}
            case "all":
                world.catch_up()
            case "write":
                topic.ends = {p: end + 30 for p, end in topic.ends.items()}
            case "leave" | "come":
                topic.is_active = what == "come"
            case "hide" | "show":
                topic.hidden = {1} if what == "hide" else set()
        world.now_ms += after_ms
        for look in looks:
            decided.append(replace(world.feed(world.sampled(look)), state=world.state.daemon))
            world.now_ms += 333
    return [*decided, *world.state.of(WATCHES)]


@settings(max_examples=60, deadline=None)
@given(LIFE)
def test_watches_live_as_if_each_topic_were_judged_with_each_look(life: list[tuple[int, str, str, list[str]]]) -> None:
    decided = lived(life)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "same_until_ms", lambda *_: 0)
        assert lived(life) == decided


@given(
    st.lists(st.lists(st.tuples(st.booleans(), st.one_of(st.none(), st.integers(0, 9)), st.booleans()), max_size=60))
)
def test_the_sums_of_readers_are_the_sum_of_all_their_partitions(
    rows: list[list[tuple[bool, int | None, bool]]],
) -> None:
    verdict = judge_caught_up("t", {}, {}, (0,), NOW_MS, LagParams())[0].verdict
    parts = [
        [
            Clause(f"t{n}", p, holds, "", verdict, 1, 2, lag, None if lag is None else lag / 2, is_known)
            for p, (holds, lag, is_known) in enumerate(found)
        ]
        for n, found in enumerate(rows)
    ]
    assert sum_of_all([sum_of(part) for part in parts]) == sum_of([clause for part in parts for clause in part])

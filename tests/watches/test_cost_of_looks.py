"""The cost of looks at groups, in counts instead of time."""

from dataclasses import replace
from typing import Any

import pytest

from recoveryd.live.lag import evaluate
from recoveryd.live.lag.evaluate import evaluate_partition
from recoveryd.live.lag.verdicts import PartitionLag
from recoveryd.watches import judge
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import UntilOffsets
from tests.builders.watch_world import CAUGHT_UP, Topic, WatchWorld

BEHIND = 20


def waiting_for(world: WatchWorld) -> dict[str, tuple[str, ...]]:
    return {reader.topic: ids for reader, ids in world.state.of(WATCHES).waiting.items()}


def with_watches(count: int) -> WatchWorld:
    """So many watches, each of a topic of its own."""
    world = WatchWorld({f"t{n}": Topic({0: 0}, {0: BEHIND}) for n in range(count)})
    for n in range(count):
        world.start(replace(CAUGHT_UP, topics=(f"t{n}",)), f"w{n}")
    world.looks(2)
    return world


def test_a_look_is_shown_to_the_watches_that_wait_for_it_however_many_others_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    is_looking = vars(Watch)["is_looking"].fget
    monkeypatch.setattr(Watch, "is_looking", property(lambda watch: asked.append(watch.id) or is_looking(watch)))

    def asked_by_a_look(watches: int) -> int:
        world = with_watches(watches)
        asked.clear()
        world.feed(world.sampled("t0"))
        return len(asked)

    assert asked_by_a_look(60) == asked_by_a_look(2)


def test_the_watches_that_wait_for_a_reader_are_those_that_look_at_it_in_the_order_in_which_they_began() -> None:
    world = WatchWorld({name: Topic({0: 0}, {0: BEHIND}) for name in ("a", "b")})
    world.start(replace(CAUGHT_UP, topics=("a", "b")), "w0")
    world.start(replace(CAUGHT_UP, topics=("b",)), "w1")
    world.start(replace(CAUGHT_UP, topics=("b", "a")), "w2")
    assert waiting_for(world) == {"a": ("w0", "w2"), "b": ("w0", "w1", "w2")}
    world.looks(2)
    world.send("stop", "w0")
    assert waiting_for(world) == {"a": ("w2",), "b": ("w1", "w2")}
    world.restart()
    assert waiting_for(world) == {"a": ("w2",), "b": ("w1", "w2")}
    world.send("stop", "w2")
    assert waiting_for(world) == {"b": ("w1",)}


@pytest.mark.parametrize("until", ["caught_up", "offsets"])
def test_a_topic_is_judged_once_in_a_period_however_many_others_its_watch_has(
    until: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[int] = []

    def counted(partition: int, *more: Any) -> PartitionLag:
        judged.append(partition)
        return evaluate_partition(partition, *more)

    monkeypatch.setattr(evaluate, "evaluate_partition", counted)
    monkeypatch.setattr(judge, "evaluate_partition", counted)

    def judged_in_a_period(topics: int) -> int:
        names = tuple(f"t{n}" for n in range(topics))
        world = WatchWorld({name: Topic({0: 0, 1: 0}, {0: BEHIND, 1: BEHIND}) for name in names})
        offsets = UntilOffsets({name: {0: BEHIND, 1: BEHIND} for name in names})
        world.start(replace(CAUGHT_UP, topics=names, until=offsets if until == "offsets" else CAUGHT_UP.until))
        world.looks(9)
        judged.clear()
        world.look()
        return len(judged)

    assert [judged_in_a_period(topics) for topics in (1, 3, 9)] == [2, 6, 18]

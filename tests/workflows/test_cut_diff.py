"""What is different between two cuts."""

from collections.abc import Iterator

import pytest

from recoveryd.adapters.kafka.cut_reading import fold_into
from recoveryd.errors import ClusterProblem
from recoveryd.workflows.model.actions import TopicForm
from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.cut_diff import InputMove, StoreDiff, compare, moves, pair_stores, partition_groups


def topic(name: str, partitions: int = 2, *, is_between: bool = False) -> CutTopic:
    return CutTopic(name, f"savepoint.c.{name}", TopicForm(name, partitions, 1), is_between)


def cut(group: str, *topics: CutTopic, **offsets: dict[int, int | None]) -> Cut:
    return Cut("c", "shop", "main", group, 0, offsets, topics)


def test_stores_of_two_versions_are_found_by_their_names_without_the_application_id() -> None:
    before = cut(
        "shop", topic("shop-sums-changelog"), topic("shop-old-changelog"), topic("shop-x-repartition", is_between=True)
    )
    after = cut("shop-v2", topic("shop-v2-sums-changelog"), topic("shop-v2-new-changelog"))
    pairs = {pair.store: (pair.before is not None, pair.after is not None) for pair in pair_stores(before, after)}
    assert pairs == {"sums": (True, True), "old": (True, False), "new": (False, True)}


def test_partitions_are_compared_one_by_one_unless_their_numbers_differ() -> None:
    [same] = pair_stores(cut("a", topic("a-s-changelog")), cut("a", topic("a-s-changelog")))
    [other] = pair_stores(cut("a", topic("a-s-changelog")), cut("a", topic("a-s-changelog", 3)))
    [gone] = pair_stores(cut("a", topic("a-s-changelog")), cut("a"))
    assert (partition_groups(same), partition_groups(other)) == (((0,), (1,)), ((0, 1, 2),))
    assert partition_groups(gone) == ((0,), (1,))


def test_keys_that_came_changed_and_went_are_counted_with_some_of_them() -> None:
    sides = [({b"a": b"1", b"b": b"1"}, {b"a": b"2", b"c": b"1"}), ({b"x": b"1"}, {b"x": b"1", b"y": b"1"})]
    found = compare("sums", sides, 1)
    assert found == StoreDiff("sums", 3, 4, 2, 1, 1, {"added": (b"c",), "changed": (b"a",), "removed": (b"b",)})
    assert not found.is_same
    assert compare("sums", [({b"a": b"1"}, {b"a": b"1"})], 1).is_same


def test_how_far_the_inputs_moved_is_told_by_partition() -> None:
    before, after = cut("a", orders={0: 5, 1: 7}), cut("a", orders={0: 9, 1: 7}, names={0: None})
    assert moves(before, after) == (InputMove("orders", 0, 5, 9),)
    assert moves(cut("a"), before) == (InputMove("orders", 0, None, 5), InputMove("orders", 1, None, 7))


def test_no_more_keys_are_read_than_are_compared() -> None:
    read = []

    def pairs() -> Iterator[tuple[bytes | None, bytes | None]]:
        for number in range(10):
            read.append(number)
            yield str(number % 7).encode(), b"v" if number != 1 else None

    found: dict[bytes, bytes] = {}
    with pytest.raises(ClusterProblem, match="more than 3 keys"):
        fold_into(found, pairs(), "t", most=3)
    assert read == [0, 1, 2, 3, 4], "key 1 is gone again, and the fourth is too many"
    whole: dict[bytes, bytes] = {}
    fold_into(whole, pairs(), "t", most=7)
    assert len(whole) == 7

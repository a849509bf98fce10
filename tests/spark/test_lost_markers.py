"""Transactions that were never ended: which of a lane's chunks landed, and what of the target is whose, by what lies
there. A restarted lane does not touch what others have open.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from recoveryd_jobs.contract import PartitionRange, Receipt, TargetRun, chunk_header, read_chunk_header
from recoveryd_jobs.lane.life import LaneOutcome
from recoveryd_jobs.lane.lost_markers import (
    Open,
    Runs,
    Unseen,
    landed,
    left_open,
    not_seen,
    pieces_of,
)
from recoveryd_jobs.lane.mending import as_runs, moved
from recoveryd_jobs.topics import LogBounds
from tests.builders.copying import Cluster, LaneThread, Recovery, assert_exact, rows

COUNT = 500


def receipt(start: int, count: int, *runs: tuple[int, int, int], chunk: int = 0, partition: int = 0) -> Receipt:
    """`runs`: target partition, first offset, count."""
    targets = tuple(TargetRun(p, many, ((first, many),)) for p, first, many in runs)
    return Receipt("s", "r", 0, 1, chunk, partition, start, start + count, count, 0, 0, 0, 1, targets)


@pytest.mark.parametrize(
    ("what", "bounds", "runs", "found"),
    [
        ("nothing is open", LogBounds(0, 10, 10), (0, 0, 9), Open([], [], [])),
        ("abandoned records behind the committed ones", LogBounds(0, 10, 14), (0, 0, 9), Open([], [0], [])),
        ("abandoned records in a new topic", LogBounds(0, 0, 14), (1, 0, 9), Open([], [0], [])),
        ("committed records that lost their commit marker", LogBounds(0, 10, 14), (0, 10, 4), Open([0], [], [])),
        ("committed records behind what others have open", LogBounds(0, 9, 14), (0, 10, 4), Open([], [], [0])),
    ],
)
def test_an_open_transaction_is_ours_if_it_begins_with_a_record_of_ours(
    what: str, bounds: LogBounds, runs: tuple[int, int, int], found: Open
) -> None:
    ours = pieces_of([receipt(0, runs[2], runs)])
    assert left_open({0: bounds}, {p: pieces[-1].end for p, pieces in ours.items()}, ours) == found, what


OLD = receipt(0, 4, (0, 0, 4))
NEXT = receipt(4, 4, (0, 5, 2), (1, 0, 2), chunk=1)
LATER = receipt(8, 4, (0, 8, 4), chunk=2)
AGAIN = receipt(4, 4, (0, 9, 2), (1, 0, 2), chunk=1)  # NEXT, of which a part was written again


@pytest.mark.parametrize(
    ("what", "unseen", "seen", "floor", "stable", "visible", "found"),
    [
        ("nobody knows of it", [Unseen(5, NEXT, "a", 1)], [OLD], 0, 9, {}, []),
        ("a record of it is seen", [Unseen(5, NEXT, "a", 1)], [OLD], 0, 9, {1: 0}, [NEXT]),
        ("somebody counts on it", [Unseen(5, NEXT, "a", 1)], [OLD], 8, 9, {}, [NEXT]),
        ("somebody counts on what came before it", [Unseen(5, NEXT, "a", 1)], [OLD], 4, 9, {}, []),
        ("whole and open", [Unseen(5, NEXT, "a", 1)], [OLD], 0, 5, {}, [NEXT]),
        ("open, and a receipt of it is lacking", [Unseen(5, NEXT, "a", 2)], [OLD], 0, 5, {}, []),
        ("open, of a release that did not tell", [Unseen(5, NEXT)], [OLD], 0, 5, {}, []),
        ("seen, of a release that did not tell", [Unseen(5, NEXT)], [OLD], 0, 5, {1: 0}, [NEXT]),
        ("begun again behind it", [Unseen(5, NEXT, "a", 1), Unseen(7, NEXT, "b", 1)], [OLD], 8, 9, {}, [NEXT]),
        ("begun again, and that is lacking", [Unseen(5, NEXT, "a", 1), Unseen(7, NEXT, "b", 2)], [OLD], 0, 5, {}, []),
        ("two in a row", [Unseen(5, NEXT, "a", 1), Unseen(7, LATER, "b", 1)], [OLD], 0, 5, {}, [NEXT, LATER]),
        ("two in a row, ended", [Unseen(5, NEXT, "a", 1), Unseen(7, LATER, "b", 1)], [OLD], 0, 9, {}, []),
        ("ended, and the next one is seen", [Unseen(5, NEXT, "a", 1), Unseen(7, LATER, "b", 1)], [OLD], 0, 9, {0: 8}, [NEXT, LATER]),
        ("ended, and the next one is open", [Unseen(5, NEXT, "a", 1), Unseen(7, LATER, "b", 1)], [OLD], 0, 7, {}, [NEXT, LATER]),
        ("a receipt of it is lacking, and the next one is open", [Unseen(5, NEXT, "a", 2), Unseen(7, LATER, "b", 1)], [OLD], 0, 5, {}, [NEXT, LATER]),
        ("seen, but not what it goes on from", [Unseen(7, LATER, "b", 1)], [OLD], 0, 9, {0: 8}, []),
        ("written again in part, and the next one is seen", [Unseen(5, NEXT, "a", 1), Unseen(7, LATER, "b", 1), Unseen(9, AGAIN, "c", 2)], [OLD], 0, 10, {0: 8}, [AGAIN, LATER]),
        ("written again, seen there", [Unseen(5, AGAIN, "a", 1)], [OLD, NEXT], 8, 9, {0: 9, 1: 0}, [AGAIN]),
        ("written again, not seen there", [Unseen(5, AGAIN, "a", 1)], [OLD, NEXT], 8, 9, {1: 0}, []),
        ("written again with one that goes on", [Unseen(5, AGAIN, "a", 2), Unseen(6, LATER, "a", 2)], [OLD, NEXT], 0, 9, {0: 8}, [AGAIN, LATER]),
    ],
)  # fmt: skip
def test_a_chunk_without_visible_receipts_landed_if_its_records_or_somebody_say_so(
    what: str,
    unseen: list[Unseen],
    seen: list[Receipt],
    floor: int,
    stable: int,
    visible: Mapping[int, int],
    found: list[Receipt],
) -> None:
    """`visible`: by target partition, an offset at which a reader sees a record."""

    def sees(wanted: Mapping[int, Runs]) -> set[int]:
        return {p for p, runs in wanted.items() if any(f <= visible.get(p, -1) < f + many for f, many in runs)}

    position = max(each.stop for each in seen)
    assert landed(unseen, seen, {0: position}, {0: floor}, stable, sees) == found, what


@pytest.mark.parametrize("partitions", [1, 50])
def test_a_reader_is_asked_once_for_a_chunk_of_many_source_partitions(partitions: int) -> None:
    """Each record of it goes to the same target partition, in any order."""
    chunk = [Unseen(p, receipt(0, 1, (0, 7 * p % 50, 1), partition=p), "a", partitions) for p in range(partitions)]
    asked: list[Mapping[int, Runs]] = []
    seen: list[int] = []

    def sees(wanted: Mapping[int, Runs]) -> list[int]:
        asked.append(wanted)
        return seen

    positions = dict.fromkeys(range(partitions), 0)
    assert landed(chunk, [], positions, {}, partitions, sees) == []
    assert asked == [{0: tuple((at, 1) for at in range(partitions))}]
    seen.append(0)
    assert landed(chunk, [], positions, {}, partitions, sees) == [each.receipt for each in chunk]
    assert len(asked) == 2


def test_what_lies_before_a_piece_that_is_seen_is_not_looked_at() -> None:
    pieces = pieces_of([OLD, NEXT, LATER])
    assert not_seen(pieces, {}, lambda _wanted: {0, 1}) == []
    assert [(p.partition, p.chunk) for p in not_seen(pieces, {}, lambda wanted: {p for p in wanted if p == 1})] == [
        (0, 2),
        (0, 1),
        (0, 0),
    ]
    assert not_seen(pieces, {0: 12, 1: 2}, lambda _wanted: set()) == [], "the target deleted them since"


def test_a_receipt_follows_its_records() -> None:
    again = moved(NEXT, {(0, 5): 20, (0, 6): 22}, 3)
    assert [run.runs for run in again.targets] == [((20, 1), (22, 1)), ((0, 2),)]
    assert replace(again, attempt=1, targets=NEXT.targets) == NEXT
    assert again.attempt == 3
    assert as_runs([3, 4, 5, 9]) == ((3, 3), (9, 1))


def test_a_chunk_names_itself_on_each_of_its_receipts() -> None:
    one, other = chunk_header(3), chunk_header(3)
    assert one != other
    assert read_chunk_header([("x", None), one]) == (one[1].decode().partition(".")[0], 3)
    assert [read_chunk_header(h) for h in ([], [(one[0], None)], [(one[0], b"x.y")])] == [("", 0)] * 3


@pytest.mark.broker
@pytest.mark.faults
def test_a_later_attempt_next_to_an_open_transaction_copies_exactly(cluster: Cluster, unique: str) -> None:
    source, target = cluster.topic("in", 1), cluster.topic("out", 1)
    cluster.fill(source, rows(COUNT, 0))
    other = cluster.producer("other")
    other.begin_transaction()
    other.produce(target, b"open", b"other", 0)
    assert other.flush(60) == 0
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT)]], partitions=1)
    assert LaneThread(replace(recovery.spec, attempt=2)).outcome(60.0) == LaneOutcome(0, "done")
    other.abort_transaction(60)
    assert_exact(recovery.ledger(), recovery.spec)
    copied = cluster.read(target, 1)
    assert [r.content for r in copied] == [r.content for r in rows(COUNT, 0)]
    assert copied[0].offset == 3, "before it: the open record, the lane's own aborted one, its marker"

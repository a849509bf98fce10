"""The log start lies inside of what a receipt covers: what the source still holds of it is compared with the end of
what the target holds of it, and only the rest is proved by the receipt.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Message

from recoveryd_jobs.contract import PartitionRange, Receipt, TargetRun, Verification, encode
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.selection import Columns, Selection
from recoveryd_jobs.verify.judge import judge, report
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.match import SOURCE, TARGET, Matches
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.shown import ROW, Shown
from recoveryd_jobs.verify.sides import SourceSide, TargetSide
from tests.builders.copying import Cluster, Recovery, Row, rows
from tests.builders.proving import agreed, places, verify
from tests.spark.test_contract import SPEC

STOP, CHUNK, GONE = 100, 20, 7
FIRST_MS = rows(1)[0].time_ms
SAME = replace(SPEC.target, mapping="same")
Edit = Callable[[list[Row]], list[Row]]


def plain(shown: Shown) -> Matches:
    return Matches(shown.tell, shown.deny, compacted=False)


def record(at: int, time_ms: int = 1) -> Message:
    return Message(topic="src", partition=0, offset=at, key=b"k", value=b"v", headers=[], timestamp=(1, time_ms))


def judged(log_start: int, claims: dict[str, int], offsets: range, times: Callable[[int], int] = int) -> Verification:
    """The proof of one partition of which the receipt says `claims` and nothing was copied, without the closer look.
    The source shows these offsets.
    """
    sides = {"source": replace(SPEC.source, from_time_ms=0), "target": SAME}
    spec, shown, ledger = replace(SPEC, verify="source", **sides), Shown(), ProofLedger()  # type: ignore[arg-type]
    said = Receipt(spec.scope, spec.recovery, 0, 1, 0, 0, 0, STOP, **claims, bytes=0)
    ledger.put(0, 0, encode(said))
    ledger.settle()
    selection, matches = Selection(spec.source, spec.target, is_stamped=False), plain(shown)
    source = SourceSide(
        spec.recovery, selection, ledger, shown, {0: Range(0, 0, STOP)}, matches, kept=True, compacted=False
    )
    target = TargetSide(
        spec.recovery, selection, ledger, shown, lambda r: ledger.runs(r.partition), matches,
        with_digest=True, with_rows=True,
    )  # fmt: skip
    if log_start:
        shown.readable_from[0] = log_start
    matches.begin([0])
    source.begin(Range(0, log_start, STOP))
    target.begin(Range(0, 0, 0))
    source.feed(0, [record(at, times(at)) for at in offsets])
    source.finish(0)
    target.finish(0)
    return report(judge(spec, [shown]), ())


def test_a_receipt_with_a_negative_count_is_found_although_its_sums_add_up() -> None:
    found = judged(0, {"copied": 0, "filtered": STOP, "skipped": -5, "lost": 5}, range(STOP), lambda _: -1)
    assert places(found) == [("ledger", 0, 0, None, None, STOP)]


@pytest.mark.parametrize("log_start", [0, 1, 99])
def test_readable_records_that_a_receipt_calls_skipped_are_found_wherever_the_log_starts(log_start: int) -> None:
    found = judged(log_start, {"copied": 0, "filtered": 0, "skipped": STOP, "lost": 0}, range(log_start, STOP))
    assert (found.result, [d.kind for d in found.differences]) == ("mismatch", ["ledger"])
    assert f"calls {STOP - log_start} readable records skipped" in found.differences[0].message


@pytest.mark.parametrize(
    ("claims", "offsets", "time_ms"),
    [
        (
            {"copied": 0, "filtered": 60, "skipped": 40, "lost": 0},
            range(50, 60),
            7,
        ),  # inside the bounds, called filtered
        ({"copied": 0, "filtered": 60, "skipped": 40, "lost": 0}, range(50, 59), -7),  # 50 gone and 9 left are not 60
        ({"copied": 0, "filtered": 0, "skipped": 50, "lost": 50}, range(50, 51), -7),  # one is there that nothing names
    ],
)
def test_what_a_receipt_says_must_fit_to_what_is_readable_of_its_range(
    claims: dict[str, int], offsets: range, time_ms: int
) -> None:
    assert [d.kind for d in judged(50, claims, offsets, lambda _: time_ms).differences] == ["ledger"]


def test_a_receipt_that_fits_to_what_is_readable_is_no_difference() -> None:
    claims = {"copied": 0, "filtered": 60, "skipped": 40, "lost": 0}
    assert judged(50, claims, range(50, 60), lambda _: -7).result == "match"


def test_a_segment_that_was_read_whole_is_compared_although_the_log_start_moves_past_it_later() -> None:
    """The first receipt calls everything skipped; all of its range is read before records of the second one's
    vanish.
    """
    spec = replace(SPEC, verify="source", source=replace(SPEC.source, from_time_ms=None), target=SAME)
    shown, ledger = Shown(), ProofLedger()
    for start, stop, filtered in ((0, 50, 0), (50, STOP, 0)):
        said = Receipt(spec.scope, spec.recovery, 0, 1, 0, 0, start, stop, 0, filtered, stop - start, 0, 0)
        ledger.put(0, start, encode(said))
    ledger.settle()
    selection = Selection(spec.source, spec.target, is_stamped=False)
    source = SourceSide(
        spec.recovery, selection, ledger, shown, {0: Range(0, 0, STOP)}, None, kept=True, compacted=False
    )
    source.begin(Range(0, 0, STOP))
    source.feed(0, [record(at) for at in range(50)])
    source.deleted(0, 50, STOP)
    source.finish(0)
    [difference] = judge(spec, [shown]).differences
    assert (difference.kind, difference.source_offset) == ("ledger", 0)
    [question] = judge(spec, [shown]).questions
    assert (question.starts, question.tails) == ((0,), ())


def copied(cluster: Cluster, mapping: str, data: list[Row], **more: object) -> Recovery:
    """Of one source partition, in chunks of CHUNK records."""
    partitions = 2 if mapping == "key_hash" else 1
    source, target = cluster.topic("in"), cluster.topic("out", partitions)
    cluster.fill(source, data)
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, cluster.end(source))]], partitions=partitions,
        target_more={"mapping": mapping}, chunk=Recovery.chunk_limits(max_records=CHUNK), **more,
    )  # fmt: skip
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    return recovery


DAMAGE: dict[str, tuple[Edit, set[str]]] = {
    "nothing": (lambda r: r, set()),
    "altered": (lambda r: [*r[:-1], replace(r[-1], value=b"x")], {"altered"}),
    "a time shifted": (lambda r: [*r[:-1], replace(r[-1], time_ms=r[-1].time_ms + 1)], {"altered"}),
    "one gone": (lambda r: r[:-1], {"missing"}),
    "reordered": (lambda r: [*r[:-2], r[-1], r[-2]], {"reordered"}),
    "one for another": (lambda r: [*r[:-2], r[-2], r[-2]], {"altered"}),
    "all gone": (lambda r: r[:0], {"missing", "ledger"}),
}
FIRST = {
    "same": {"nothing", "altered", "one gone", "reordered", "all gone"},
    "key_hash": {"nothing", "altered", "one gone"},
}


@pytest.mark.broker
@pytest.mark.parametrize(("damage", "mapping"), [
    (damage, mapping) if damage in FIRST[mapping] else pytest.param(damage, mapping, marks=pytest.mark.wide(
        "tests/spark/test_proof_boundary.py::test_a_readable_end_of_a_receipt_is_compared_whatever_the_receipt_says"
    ))
    for damage in DAMAGE
    for mapping in FIRST
])  # fmt: skip
def test_a_readable_end_of_a_receipt_is_compared_whatever_the_receipt_says(
    cluster: Cluster, damage: str, mapping: str
) -> None:
    """Damaged are the first, a middle and the last receipt, one after the other, and the receipts say what the target
    holds.
    """
    recovery = copied(cluster, mapping, [replace(r, headers=(("h", None),)) for r in rows(3 * CHUNK)])
    (edit, wanted), receipts = DAMAGE[damage], recovery.ledger()
    for at in [r.start for r in receipts]:
        cluster.delete_records(recovery.source, 0, at + GONE)
        found = verify(agreed(recovery, receipts, lambda said, r, at=at: edit(r) if said.start == at else r))  # type: ignore[misc]
        assert {kind for kind, *_ in places(found)} == wanted
        named = [offset for kind, _, offset, *_ in places(found) if kind != "ledger"]
        assert all(at + GONE <= offset < at + CHUNK for offset in named)  # type: ignore[operator]
        assert wanted or (found.scope, found.source_records, found.records_by_receipts) == ("mixed", 60, at + GONE)


def lose_while_read(monkeypatch: pytest.MonkeyPatch, first: int, stop: int, then: Callable[[], None]) -> None:
    """Readings of the source find [first, stop) deleted when they come there."""
    feed, gone = SourceSide.feed, list[int]()

    def fed(self: SourceSide, partition: int, messages: list[Message]) -> int:
        before = [m for m in messages if (m.offset() or 0) < first]
        after = [m for m in messages if (m.offset() or 0) >= stop]
        if before:
            feed(self, partition, before)
        if len(before) < len(messages) and not gone:
            gone.append(first)
            self.deleted(partition, first, stop)
            then()
        if after:
            feed(self, partition, after)
        return 0

    monkeypatch.setattr(SourceSide, "feed", fed)


def damaging(number: int, *, is_damaged: bool) -> Callable[[Receipt, list[Row]], list[Row]]:
    """Another value in this record of the second receipt, if it is to be damaged."""

    def edit(said: Receipt, stored: list[Row]) -> list[Row]:
        is_here = is_damaged and said.start == CHUNK
        return [*stored[:number], replace(stored[number], value=b"x"), *stored[number + 1 :]] if is_here else stored

    return edit


@pytest.mark.broker
@pytest.mark.parametrize("mapping", ["same", "key_hash"])
@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_difference_that_was_read_and_deleted_then_is_named_whatever_the_receipt_says(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, mapping: str, is_damaged: bool
) -> None:
    """Of the second receipt the head is read, and both the head and what follows are deleted then."""
    recovery = copied(cluster, mapping, rows(3 * CHUNK))
    spec, log_start = agreed(recovery, recovery.ledger(), damaging(0, is_damaged=is_damaged)), 2 * CHUNK - 1
    lose_while_read(monkeypatch, CHUNK + GONE, log_start, lambda: cluster.delete_records(recovery.source, 0, log_start))
    found = verify(spec)
    assert found.result == ("mismatch" if is_damaged else "match")
    for kind, _, offset, *_ in places(found):
        assert (kind, offset) == ("altered", CHUNK)
    assert all("what differed was deleted since" in d.message for d in found.differences)


@pytest.mark.broker
@pytest.mark.parametrize("mapping", ["same", "key_hash"])
@pytest.mark.parametrize("is_damaged", [True, False])
def test_what_was_read_between_two_losses_of_a_receipt_and_not_compared_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, mapping: str, is_damaged: bool
) -> None:
    """The second receipt begins before the log start, and all but its last record is deleted once some are read."""
    recovery = copied(cluster, mapping, rows(3 * CHUNK))
    spec, log_start = agreed(recovery, recovery.ledger(), damaging(4, is_damaged=is_damaged)), 2 * CHUNK - 1
    cluster.delete_records(recovery.source, 0, CHUNK + 2)
    lose_while_read(monkeypatch, CHUNK + GONE, log_start, lambda: cluster.delete_records(recovery.source, 0, log_start))
    found = verify(spec)
    assert (found.result, found.scope) == ("match", "mixed")
    assert "5 records of partition 0 were read and then deleted before they could be compared" in found.why


def test_of_a_compacted_source_a_difference_that_was_read_and_deleted_then_is_named() -> None:
    """What compaction may have taken is proved by the receipt; another value than the source had is not."""
    for value, wanted in ((b"v", []), (b"x", [("altered", 0, 0, 0, None, 1)])):
        spec, shown, ledger = replace(SPEC, verify="source", target=SAME), Shown(), ProofLedger()
        ledger.settle()
        matches = Matches(shown.tell, shown.deny, compacted=True)
        matches.begin([0])
        pair = matches.of(0, 0)
        assert pair is not None
        pair.feed(TARGET, 0, Columns([0, 1], [b"a", b"k"], [b"v", value], [1, 1], None))
        pair.feed(SOURCE, 0, Columns([1], [b"k"], [b"v"], [1], None))
        pair.finish(SOURCE)
        pair.close(TARGET, 0, ROW.pack(0, 2, b""))
        pair.finish(TARGET)
        shown.cut[0] = [(0, 50)]
        assert places(report(judge(spec, [shown]), ())) == wanted


def test_all_places_of_foreign_records_are_counted_and_a_hundred_are_listed() -> None:
    """Three hundred records of others, each between two of ours; how the reader cuts them makes no difference."""
    runs = tuple((2 * n, 1) for n in range(300))
    spec, shown, ledger = replace(SPEC, verify="count", target=replace(SAME, exclusive=True)), Shown(), ProofLedger()
    said = Receipt(spec.scope, spec.recovery, 0, 1, 0, 0, 0, 300, 300, 0, 0, 0, 0, (TargetRun(0, 300, runs),))
    ledger.put(0, 0, encode(said))
    ledger.settle()
    target = TargetSide(
        spec.recovery, Selection(spec.source, spec.target, is_stamped=False), ledger, shown,
        lambda r: ledger.runs(r.partition), None, with_digest=False, with_rows=False,
    )  # fmt: skip
    target.begin(Range(0, 0, 610))
    shown.promised = 300
    offsets = range(610)  # the last run is ten in a row
    for at in range(0, 610, 7):
        target.feed(0, [record(offset) for offset in offsets[at : at + 7]])
    target.finish(0)
    found = report(judge(spec, [shown]), ())
    assert (found.extra_records, len(found.differences)) == (310, 100)
    assert "300 differences, the first 100 are listed" in found.why
    assert places(found)[:2] == [("extra", None, None, 0, 1, 1), ("extra", None, None, 0, 3, 1)]

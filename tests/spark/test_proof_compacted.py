"""A compacted source goes on losing records while it is proved: before it is read, between two readings, and before the
closer look. An honest copy matches whatever goes; a difference that was seen, or could not be compared, is told.

The logs are kept in memory; receipts always agree with what was sent, as those of a lane that lies.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from recoveryd_jobs.contract import (
    DIGEST_FORM,
    JobSpec,
    LaneSpec,
    PartitionRange,
    Receipt,
    TargetRun,
    Verification,
    encode,
)
from recoveryd_jobs.digest import SequenceDigest
from recoveryd_jobs.selection import Selection
from recoveryd_jobs.verify import closer_look
from recoveryd_jobs.verify.closer_look import Look
from recoveryd_jobs.verify.judge import judge, report
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.match import Matches
from recoveryd_jobs.verify.plan import Asked, ProofPlan
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.sides import SourceSide, TargetSide
from tests.builders.proving import FreeGuest
from tests.spark.test_contract import SPEC

GONE = "were read and were gone when they were to be compared, so only receipts prove them"
MAPPINGS = ["same", "key_hash"]


class Item(NamedTuple):
    key: bytes | None
    value: bytes


Log = dict[int, Item]
Sent = list[tuple[int, Item]]  # with the offset that it had, or claims to have had, in the source
Lane = Callable[[Sent], Sent]


def honest(sent: Sent) -> Sent:
    return sent


def altering(*offsets: int) -> Lane:
    return lambda sent: [(at, item._replace(value=b"x") if at in offsets else item) for at, item in sent]


def losing_keys(*offsets: int) -> Lane:
    return lambda sent: [(at, item._replace(key=None) if at in offsets else item) for at, item in sent]


def dropping(*offsets: int) -> Lane:
    return lambda sent: [(at, item) for at, item in sent if at not in offsets]


class Copy:
    """A copy of one source partition, in receipts that end at `cuts`. `source` changes afterwards, `target` does not.
    `seen`: what the proof read, by (target partition, start of its segment).
    """

    def __init__(self, mapping: str, source: Log, lane: Lane = honest, cuts: Iterable[int] = ()) -> None:
        self.source, self.stop = dict(source), max(source) + 1
        self.log_start, self.width = 0, 3 if mapping == "key_hash" else 1
        self.target: list[Log] = [{} for _ in range(self.width)]
        self.seen: dict[tuple[int, int], list[Item]] = defaultdict(list)
        self.held: dict[tuple[int, int], list[Item]] = defaultdict(list)
        to = replace(SPEC.target, mapping=mapping, partitions=self.width, headers_add=(), headers_drop=())
        lanes = (LaneSpec(0, (PartitionRange(0, 0, self.stop),)),)
        bounds = replace(SPEC.source, from_time_ms=None, to_time_ms=None)
        self.spec: JobSpec = replace(SPEC, verify="source", source=bounds, target=to, lanes=lanes)
        self.selection = Selection(self.spec.source, self.spec.target, is_stamped=False)
        self.ledger, self.starts = ProofLedger(), [0, *cuts]
        for start, stop in zip(self.starts, [*cuts, self.stop], strict=True):
            self._send(start, stop, lane([(at, item) for at, item in source.items() if start <= at < stop]))
        self.ledger.settle()
        self.ledger.index()

    def _send(self, start: int, stop: int, sent: Sent) -> None:
        firsts = [len(log) for log in self.target]
        for at, item in sent:
            to = self.to(at, item)
            self.target[to][len(self.target[to])] = item
            self.held[to, start].append(item)
        runs = [self._run(to, first, self.held[to, start]) for to, first in enumerate(firsts)]
        said = Receipt(
            self.spec.scope, self.spec.recovery, 0, 1, 0, 0, start, stop, len(sent), 0, stop - start - len(sent), 0, 0,
            targets=tuple(r for r in runs if r.runs[0][1]),
        )  # fmt: skip
        self.ledger.put(0, start, encode(said))

    def _run(self, to: int, first: int, items: list[Item]) -> TargetRun:
        digest = SequenceDigest(self.spec.recovery, to)
        digest.extend([i.key for i in items], [i.value for i in items], [1] * len(items), None)
        return TargetRun(to, len(items), ((first, len(items)),), digest.hex(), DIGEST_FORM)

    def to(self, at: int, item: Item) -> int:
        return (self.selection.targets(0, [item.key], [at]) or [0])[0]

    def compact(self, *offsets: int) -> None:
        """A record without a key stays: a compacted topic takes none, and one from before it was compacted, which
        would go, is reported when it does.
        """
        for at in offsets:
            if at in self.source and self.source[at].key is not None:
                del self.source[at]

    def delete_before(self, log_start: int) -> None:
        self.log_start = max(self.log_start, log_start)
        self.source = {at: item for at, item in self.source.items() if at >= self.log_start}

    def proved(self, meanwhile: Mapping[int, Callable[[], object]], batch: int = 1) -> Verification:
        """`meanwhile`: what happens when the source was read up to an offset; at the end of the range, before the
        closer look.
        """
        plan = ProofPlan(
            (Range(0, 0, self.stop),), tuple(Range(to, 0, len(log)) for to, log in enumerate(self.target)),
            {0: self.log_start}, is_stamped=False, is_compacted=True, is_open=frozenset(),
        )  # fmt: skip
        shown = Shown()
        matches = Matches(shown.tell, shown.deny, compacted=True) if self.width == 1 else None
        if matches is not None:
            matches.begin([0])
        self._read_source(shown, matches, meanwhile, batch)
        target = TargetSide(
            self.spec.recovery, self.selection, self.ledger, shown, lambda r: self.ledger.runs(r.partition), matches,
            with_digest=True, with_rows=True,
        )  # fmt: skip
        for to, log in enumerate(self.target):
            target.begin(plan.targets[to])
            target.feed(to, messages("out", to, log.items()))
            target.finish(to)
        verdict = judge(self.spec, [shown])
        meanwhile.get(self.stop, list)()
        look = Look(self.spec, plan, self.ledger, FreeGuest())  # type: ignore[arg-type]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(closer_look, "make_reader", lambda *_, **__: Reader(self))
            patch.setattr(closer_look, "meet", lambda *_: None)
            patch.setattr(Asked, "log_start", lambda *_: self.log_start)
            found = [look.answer(question) for question in verdict.questions]
        self.ledger.close()
        return report(verdict, found)

    def _read_source(
        self, shown: Shown, matches: Matches | None, meanwhile: Mapping[int, Callable[[], object]], batch: int
    ) -> None:
        side = SourceSide(
            self.spec.recovery, self.selection, self.ledger, shown, {0: Range(0, 0, self.stop)}, matches, kept=True,
            compacted=True,
        )  # fmt: skip
        position = self.log_start
        if position:
            shown.readable_from[0] = position
        side.begin(Range(0, position, self.stop))
        while position < self.stop:
            meanwhile.get(position, list)()
            if self.log_start > position:
                side.deleted(0, position, self.log_start)
                position = self.log_start
                continue
            some = [(at, item) for at, item in self.source.items() if position <= at < position + batch]
            side.feed(0, messages("in", 0, some))
            for at, item in some:
                self.seen[self.to(at, item), max(s for s in self.starts if s <= at)].append(item)
            position += batch
        side.finish(0)


def messages(topic: str, partition: int, log: Iterable[tuple[int, Item]]) -> list[Message]:
    return [
        Message(topic=topic, partition=partition, offset=at, key=i.key, value=i.value, headers=[], timestamp=(1, 1))
        for at, i in log
    ]


class Reader:
    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._left: list[Message] = []

    def assign(self, where: list[TopicPartition]) -> None:
        [place] = where
        is_source = place.topic == self._copy.spec.source.topic
        log = self._copy.source if is_source else self._copy.target[place.partition]
        end = Message(place.topic, place.partition, 10_000, error=KafkaError(KafkaError._PARTITION_EOF))
        some = [(at, item) for at, item in log.items() if at >= place.offset]
        self._left = [*messages(place.topic, place.partition, some), end]

    def consume(self, _count: int, _wait_s: float) -> list[Message]:
        left, self._left = self._left, []
        return left

    def unassign(self) -> None: ...

    def close(self) -> None: ...


def log(keys: str) -> Log:
    """A record for each letter, its key; each has another value."""
    return {at: Item(key.encode(), b"v%d" % at) for at, key in enumerate(keys)}


def told(found: Verification) -> tuple[str, bool]:
    """The result by what was seen of records, and whether some are named that were not compared."""
    by_records = [d for d in found.differences if d.kind != "ledger"]
    assert bool(by_records) == (found.result == "mismatch")
    assert found.result == "mismatch" or found.source_records == found.target_records
    return found.result, GONE in found.why


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("lane", [altering(0), dropping(0)])
def test_a_difference_is_a_mismatch_although_compaction_takes_it_before_the_closer_look(
    mapping: str, lane: Lane
) -> None:
    """All that was copied was read, so nothing can have been compacted away before."""
    for sends, wanted in ((lane, "mismatch"), (honest, "match")):
        copy = Copy(mapping, log("aaaaa"), sends)
        found = copy.proved({copy.stop: lambda copy=copy: copy.compact(0, 1)})  # type: ignore[misc]
        assert told(found) == (wanted, False)
        assert wanted == "mismatch" or (found.scope, found.records_by_receipts) == ("source", 0)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("lane", [altering(0), honest])
def test_what_was_read_of_a_part_and_is_compacted_before_the_closer_look_is_named(mapping: str, lane: Lane) -> None:
    """One record is gone before the first look, and another one afterwards. What is compared as it is read needs no
    second look at it.
    """
    copy = Copy(mapping, log("aaaaa"), lane)
    copy.compact(1)
    found = copy.proved({copy.stop: lambda: copy.compact(0)})
    if mapping == "same":
        assert told(found) == ("match" if lane is honest else "mismatch", False)
    else:
        assert told(found) == ("match", True)
        assert f"1 records {GONE}" in found.why
    if found.result == "match":
        counts = found.source_records, found.records_by_receipts
        assert (found.scope, counts) == ("mixed", (5, 1 if mapping == "same" else 2))


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("lane", [altering(1), dropping(1), dropping(0, 1, 2), honest])
def test_what_was_read_before_a_loss_is_compared_or_named(mapping: str, lane: Lane) -> None:
    """Three records are read when the log start moves to 4."""
    copy = Copy(mapping, log("aaaaaa"), lane)
    found = copy.proved({3: lambda: copy.delete_before(4)})
    is_enough = sum(map(len, copy.target)) > 5  # else the target lacks one of those that were read
    if lane is honest:
        assert told(found) == ("match", False)
        assert (found.source_records, found.records_by_receipts) == (6, 4)
    elif mapping == "same" or not is_enough:
        assert told(found)[0] == "mismatch"
    else:
        assert told(found) == ("match", True)
        assert f"3 records {GONE}" in found.why


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("lane", [altering(2), dropping(2, 3), honest])
def test_the_end_of_a_segment_that_is_compacted_before_the_closer_look_is_compared_or_named(
    mapping: str, lane: Lane
) -> None:
    """The log starts at 1, so five of six records are read; then the third and the fourth go."""
    copy = Copy(mapping, log("aaaaaa"), lane)
    copy.delete_before(1)
    found = copy.proved({copy.stop: lambda: copy.compact(2, 3)})
    if lane is honest:
        assert told(found) == ("match", False)
        assert (found.source_records, found.records_by_receipts) == (6, 1)
    elif sum(map(len, copy.target)) < 5:
        assert told(found)[0] == "mismatch"
    else:
        assert told(found) == ("match", True)
        assert (f"2 records {GONE}" in found.why, found.records_by_receipts) == (True, 3)


@pytest.mark.parametrize("later", [(), (2,), (2, 3, 4)])
def test_a_record_without_its_key_is_a_mismatch_whatever_else_is_compacted(later: tuple[int, ...]) -> None:
    copy = Copy("key_hash", log("aaaaaaaa"), losing_keys(1))
    copy.compact(0)
    assert told(copy.proved({copy.stop: lambda: copy.compact(*later)}))[0] == "mismatch"


def test_a_record_without_its_key_may_be_gone_only_where_the_log_start_has_passed() -> None:
    copy = Copy("key_hash", log("aaaaaaaa"), losing_keys(1))
    copy.compact(0, 4)
    assert told(copy.proved({copy.stop: lambda: copy.delete_before(2)})) == ("match", True)


def test_an_end_that_the_target_has_no_room_for_is_a_mismatch() -> None:
    """As many are read as the target holds, and not the same."""
    copy = Copy("key_hash", log("aaaaaa"), lambda sent: altering(3)(dropping(0)(sent)))
    copy.delete_before(1)
    assert told(copy.proved({copy.stop: lambda: copy.compact(2, 3)}))[0] == "mismatch"


def test_a_beginning_and_an_end_that_are_the_same_record_of_the_target_are_a_mismatch() -> None:
    copy = Copy("key_hash", dict.fromkeys(range(2), Item(b"a", b"v")), dropping(1))
    assert told(copy.proved({1: lambda: copy.delete_before(1)}))[0] == "mismatch"


def changing(random: Random, copy: Copy) -> dict[int, Callable[[], object]]:
    """Records go at random places of the proof."""

    def compact() -> None:
        copy.compact(*(at for at in list(copy.source) if random.random() < 0.3))

    def delete() -> None:
        copy.delete_before(random.randint(0, copy.stop))

    def both() -> None:
        compact()
        delete()

    steps = compact, compact, delete, both
    return {at: random.choice(steps) for at in range(copy.stop + 1) if random.random() < 0.25 or at == copy.stop}


def anything(random: Random, lane: Lane) -> tuple[Copy, dict[int, Callable[[], object]]]:
    """Equal records, or some without a key: of equal ones it cannot be told which are left, and so not where in the
    target one without a key is that is gone.
    """
    has_keyless = random.random() < 0.5
    keys = (b"a", b"b", b"c", None) if has_keyless else (b"a", b"b", b"c")
    source = {
        at: Item(random.choice(keys), b"v%d" % (at if has_keyless else random.randint(0, 9)))
        for at in range(random.randint(1, 24))
        if random.random() < 0.9 or at == 0
    }
    cuts = sorted(random.sample(range(1, max(source) + 1), min(max(source), random.randint(0, 3))))
    copy = Copy(random.choice(MAPPINGS), source, lane, cuts)
    for step in list(changing(random, copy).values())[: random.randint(0, 2)]:
        step()
    return copy, changing(random, copy)


@given(st.randoms())
def test_an_honest_copy_matches_whatever_compaction_and_deletion_take_and_when(random: Random) -> None:
    copy, meanwhile = anything(random, honest)
    found = copy.proved(meanwhile)
    assert (found.result, found.source_records) == ("match", found.target_records), found
    assert found.records_by_receipts <= found.source_records


@given(st.randoms())
def test_what_was_read_and_is_no_part_of_the_target_is_a_mismatch_or_named(random: Random) -> None:
    def lane(sent: Sent) -> Sent:
        at = random.choice([at for at, _ in sent]) if sent and random.random() < 0.6 else -1
        return random.choice((altering(at), dropping(at), losing_keys(at)))(sent)

    copy, meanwhile = anything(random, lane)
    found = copy.proved(meanwhile)
    is_part = all(is_part_of(seen, copy.held[place]) for place, seen in copy.seen.items())
    assert found.result == "mismatch" or is_part or "so only receipts prove them" in found.why


def is_part_of(some: list[Item], whole: list[Item]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in some)

"""The invariants of docs/guarantees.md that are judged on the records alone: I1 to I8 and I11. One pure function per
invariant; each message names the place.

Those that need receipts (I9, I10, I12) are in `ledger_invariants`.
"""

from collections.abc import Iterator, Mapping

from tests.e2e.log_reader import Content, Record
from tests.e2e.model import History, Matching, Pair, Violation


def no_loss(history: History, matching: Matching) -> Iterator[Violation]:
    """I1: each committed, in-range, selected source record has an image. Records that vanished during the run, or may
    be lost, need none.
    """
    excused = {(r.partition, r.offset) for r in history.vanished}
    for image in matching.missing:
        source = image.source
        if (source.partition, source.offset) not in excused and not history.asked.calls_lost(source):
            yield Violation("I1", f"source {_at(source)} has no image; wanted in {_where(image.partition)}")


def no_duplicate(history: History, matching: Matching) -> Iterator[Violation]:
    """I2: no source record has more than one image."""
    images = _contents(matching)
    for record in matching.extra:
        twin = images.get(history.asked.content_of(record))
        if twin is not None:
            yield Violation("I2", f"target {_at(record)} is one more image of source {_at(twin)}")


def no_phantom(history: History, matching: Matching) -> Iterator[Violation]:
    """I3: nothing aborted, nothing from before the range or filtered out, nothing of unknown origin."""
    images, past = _contents(matching), _past_the_stop(history)
    aborted = {history.asked.image_of(r): r for r in history.aborted}
    others = {
        history.asked.image_of(r): r for rs in history.source.values() for r in rs if not history.asked.has(r)
    } | {history.asked.image_of(r): r for rs in history.source.values() for r in rs if not history.asked.selects(r)}
    for record in matching.extra:
        content = history.asked.content_of(record)
        if content in images or content in past:
            continue
        if content in aborted:
            yield Violation("I3", f"target {_at(record)} is the image of aborted source {_at(aborted[content])}")
        elif content in others:
            yield Violation(
                "I3", f"target {_at(record)} is the image of source {_at(others[content])}, which is not in the range"
            )
        else:
            yield Violation(
                "I3", f"target {_at(record)} is the image of nothing: key {record.key!r}, time {record.time_ms}"
            )


def bytes_kept(history: History, matching: Matching) -> Iterator[Violation]:
    """I4: key and value equal, null is not empty."""
    for pair in _flawed(matching, "I4"):
        source, target = pair.image.source, pair.target
        for part, was, now in (("key", source.key, target.key), ("value", source.value, target.value)):
            if was != now:
                yield Violation(
                    "I4", f"{part} of source {_at(source)} is {_short(was)}, in target {_at(target)} {_short(now)}"
                )


def headers_kept(history: History, matching: Matching) -> Iterator[Violation]:
    """I5: headers equal as an ordered multi-list (after the asked additions and drops)."""
    for pair in _flawed(matching, "I5"):
        wanted, seen = pair.image.content[2], pair.target.headers
        yield Violation(
            "I5",
            f"headers of source {_at(pair.image.source)} must be {wanted!r}, target {_at(pair.target)} has {seen!r}",
        )


def time_kept(history: History, matching: Matching) -> Iterator[Violation]:
    """I6: CreateTime equal in ms, and of that type; with a LogAppendTime target the broker's type."""
    for pair in _flawed(matching, "I6"):
        source, target = pair.image.source, pair.target
        yield Violation(
            "I6", f"time of source {_at(source)} is {source.time_ms}, of target {_at(target)} {target.time_ms}"
        )
    for pair in matching.pairs:
        if pair.target.is_log_append_time != history.asked.log_append_time and pair.target.time_ms != -1:
            yield Violation("I6", f"target {_at(pair.target)} has the other kind of time than the plan says")


def order_kept(history: History, matching: Matching) -> Iterator[Violation]:
    """I7: per source partition, offsets rise in each target partition."""
    last: dict[tuple[int, int], Pair] = {}
    for pair in matching.pairs:
        if pair.flaw == "I8":
            continue
        way = (pair.image.source.partition, pair.target.partition)
        before = last.get(way)
        if before is not None and before.image.source.offset > pair.image.source.offset:
            yield Violation(
                "I7",
                f"source {_at(pair.image.source)} comes after {_at(before.image.source)} at target {_at(pair.target)}",
            )
        last[way] = pair


def map_honoured(history: History, matching: Matching) -> Iterator[Violation]:
    """I8: each image lies in the partition of the plan's map."""
    for pair in _flawed(matching, "I8"):
        yield Violation(
            "I8",
            (
                f"source {_at(pair.image.source)} belongs into {_where(pair.image.partition)}, found at target "
                f"{_at(pair.target)}"
            ),
        )


def bound_kept(history: History, matching: Matching) -> Iterator[Violation]:
    """I11: no image of anything at or past the stop, and no receipt that reaches past it."""
    images, past = _contents(matching), _past_the_stop(history)
    for record in matching.extra:
        content = history.asked.content_of(record)
        if content not in images and content in past:
            yield Violation(
                "I11", f"target {_at(record)} is the image of source {_at(past[content])}, at or past the stop"
            )
    for receipt in history.receipts:
        stop = _bounds(history).get(receipt.partition)
        if stop is not None and receipt.stop > stop:
            yield Violation("I11", f"{receipt.name} reaches past the stop {stop}")


def _flawed(matching: Matching, flaw: str) -> Iterator[Pair]:
    return (pair for pair in matching.pairs if pair.flaw == flaw)


def _contents(matching: Matching) -> Mapping[Content, Record]:
    return {pair.image.content: pair.image.source for pair in matching.pairs}


def _bounds(history: History) -> Mapping[int, int]:
    return {p: stop for p, (_, stop) in history.asked.ranges.items()} | dict(history.bounds)


def _past_the_stop(history: History) -> Mapping[Content, Record]:
    bounds, found = _bounds(history), {}
    to_time_ms = history.asked.to_time_ms
    for partition, records in history.source.items():
        for record in records:
            is_late = to_time_ms is not None and record.time_ms >= to_time_ms
            if record.offset >= bounds.get(partition, record.offset + 1) or is_late:
                found[history.asked.image_of(record)] = record
    return found


def _at(record: Record) -> str:
    return f"{record.partition}/{record.offset}"


def _where(partition: int | None) -> str:
    return "any partition" if partition is None else f"partition {partition}"


def _short(data: bytes | None) -> str:
    return repr(data if data is None or len(data) <= 40 else data[:40] + b"...")

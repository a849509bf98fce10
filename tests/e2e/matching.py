"""Pairs each target record with the source record it is the image of. Pure; the invariants are judged on its result.

First exact pairs: the same content in the partition of the plan's map, where equal records pair in their order. A
receipt's claim only decides between source partitions that hold equal records. What is left on both sides is then
paired by similarity, so that a changed time is reported as such and not as one lost record and one of unknown origin.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence

from tests.e2e.log_reader import Content, Record
from tests.e2e.model import Asked, Claims, History, Image, Matching, Pair

Pool = dict[Content, dict[int, deque[Image]]]  # content -> source partition -> images in order


def make_images(history: History) -> list[Image]:
    """Images of all committed, in-range, selected source records, also of those that vanished while the copy ran."""
    asked = history.asked
    seen = [r for records in history.source.values() for r in records] + list(history.vanished)
    wanted = [r for r in seen if asked.has(r) and asked.selects(r)]
    wanted.sort(key=lambda r: (r.partition, r.offset))
    return [Image(r, asked.partition_for(r), asked.image_of(r)) for r in wanted]


def match(history: History) -> Matching:
    pool: Pool = defaultdict(lambda: defaultdict(deque))
    for image in make_images(history):
        pool[image.content][image.source.partition].append(image)
    claims = Claims(history.receipts)
    pairs: list[Pair] = []
    extra: list[Record] = []
    for partition in sorted(history.target):
        for record in history.target[partition]:
            taken = _take(pool, history.asked, record, claims)
            if taken is None:
                extra.append(record)
            else:
                pairs.append(Pair(record, taken))
    missing = sorted(
        (i for by_source in pool.values() for images in by_source.values() for i in images),
        key=lambda i: (i.source.partition, i.source.offset),
    )
    return _pair_alike(history.asked, pairs, missing, extra)


def _take(pool: Pool, asked: Asked, record: Record, claims: Claims) -> Image | None:
    by_source = pool.get(asked.content_of(record))
    if by_source is None:
        return None
    claim = claims.of(record.partition, record.offset)
    order = sorted(by_source, key=lambda p: (claim is None or claim.partition != p, p))
    for partition in order:
        images = by_source[partition]
        if images and images[0].partition in {None, record.partition}:
            return images.popleft()
    return None


# From the most to the least similar: the invariant that a pair breaks, and what the two records still have in common.
_LIKENESS: tuple[tuple[str, Callable[[int | None, Content], Hashable]], ...] = (
    ("I8", lambda _, c: c),
    ("I6", lambda p, c: (p, c[:3])),
    ("I5", lambda p, c: (p, c[0], c[1], c[3])),
    ("I4", lambda p, c: (p, c[0], c[2], c[3])),
    ("I4", lambda p, c: (p, c[1], c[2], c[3])),
)


def _pair_alike(asked: Asked, pairs: list[Pair], missing: Sequence[Image], extra: Sequence[Record]) -> Matching:
    for flaw, view in _LIKENESS:
        waiting: dict[Hashable, deque[Image]] = defaultdict(deque)
        for image in missing:
            waiting[view(image.partition, image.content)].append(image)
        left: list[Record] = []
        used: set[tuple[int, int]] = set()
        for record in extra:
            likely = waiting.get(view(record.partition, asked.content_of(record)))
            if likely:
                image = likely.popleft()
                used.add((image.source.partition, image.source.offset))
                pairs.append(Pair(record, image, flaw))
            else:
                left.append(record)
        missing = [i for i in missing if (i.source.partition, i.source.offset) not in used]
        extra = left
    return Matching(_in_target_order(pairs), missing, extra)


def _in_target_order(pairs: Iterable[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: (pair.target.partition, pair.target.offset))

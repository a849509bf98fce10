"""Offsets as CSV: `group,topic,partition,offset` in each line, as `kafka-consumer-groups --export` writes them; for one
group also without the group.

Reading is strict: a line that cannot be meant is named, and nothing of the file is used.
"""

import csv
import io
from collections.abc import Iterable, Mapping

Offsets = Mapping[str, Mapping[int, int]]
_LINES_MOST = 1_000_000
_DIGITS_MOST = 19  # of 2^63 - 1, the largest offset


class OffsetsUnreadable(ValueError):  # noqa: N818  (named for what happened)
    """Says the line."""


class GroupUnknown(ValueError):  # noqa: N818  (named for what happened)
    """Says the line that names a group, where nobody knows which one is meant."""


def write_offsets(group: str, offsets: Offsets) -> str:
    """In the order of topics and partitions, and only what needs quotes has them, as Kafka's own tool writes it."""
    named = _quoted(group)
    return "".join(
        f"{named},{topic},{partition},{offset}\n"
        for topic, found in sorted(offsets.items())
        for partition, offset in sorted(found.items())
    )


def _quoted(text: str) -> str:
    """Blanks and byte order marks at the beginning too: readers pass over them."""
    needs_quotes = text.startswith((" ", "\ufeff")) or any(each in text for each in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text


def read_offsets(text: str, group: str | None) -> dict[str, dict[int, int]]:
    """What stands there of `group`; None: of the one that is meant, as long as no line names one. Raises
    `OffsetsUnreadable` and `GroupUnknown`.
    """
    found: dict[str, dict[int, int]] = {}
    for number, row in enumerate(_rows(text), 1):
        if not row or row == [""]:
            continue
        if number > _LINES_MOST:
            raise OffsetsUnreadable(f"it has more than {_LINES_MOST:,} lines")
        if len(row) not in {3, 4}:
            raise OffsetsUnreadable(f"line {number} has {len(row)} fields; it needs [group,]topic,partition,offset")
        if len(row) == 4 and group is None:
            raise GroupUnknown(f"line {number} is of the group {_shown(row[0])}")
        if len(row) == 4 and row[0] != group:
            continue
        topic, partition, offset = row[-3], _number(row[-2], number, "partition"), _number(row[-1], number, "offset")
        if partition in found.setdefault(topic, {}):
            raise OffsetsUnreadable(f"line {number}: {topic} {partition} stands there twice")
        found[topic][partition] = offset
    if not found:
        raise OffsetsUnreadable("nothing stands there" + (f" of the group {group}" if group else ""))
    return found


def _rows(text: str) -> Iterable[list[str]]:
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff")), skipinitialspace=True)
    try:
        yield from reader
    except csv.Error as error:
        raise OffsetsUnreadable(f"line {reader.line_num}: {error}") from None


def _number(text: str, line: int, what: str) -> int:
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MOST:
        raise OffsetsUnreadable(f"line {line}: {_shown(text)} is no {what}")
    return int(digits)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 2 * _DIGITS_MOST else f"{text[:_DIGITS_MOST]!r}..."

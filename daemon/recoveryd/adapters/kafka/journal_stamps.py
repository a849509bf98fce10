"""What the journal's records say of themselves in headers: of which transaction they are, and which ones landed.

`series` is one hold of a leader on the journal. In it the next `number` is only given once the one before was
acknowledged, and `attempt` counts what was tried under a number. `journal_judgement` says what follows from that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from recoveryd.adapters.kafka.transactions import OutgoingKafkaRecord

STAMP_HEADER: Final = "recoveryd-transaction"
COPY_HEADER: Final = "recoveryd-copy-of"  # the offset of the record that this one brings back
LANDED_HEADER: Final = "recoveryd-landed"  # up to which number of a series all landed
LEADER_HEADER: Final = "recoveryd-leader"  # who leads, on `_daemon` records

_OURS: Final = frozenset({STAMP_HEADER, COPY_HEADER, LANDED_HEADER})

Headers = Sequence[tuple[str, bytes | None]]
Transaction = tuple[str, int]  # series and number


@dataclass(frozen=True, slots=True)
class Stamp:
    """Of which transaction a record is; `count` is how many records that has."""

    series: str
    number: int
    attempt: int
    count: int

    @property
    def transaction(self) -> Transaction:
        return self.series, self.number

    def header(self) -> tuple[str, bytes]:
        return STAMP_HEADER, f"{self.series}.{self.number}.{self.attempt}.{self.count}".encode()


@dataclass(frozen=True, slots=True)
class HiddenRecord:
    """A record as far as it is judged; its value is left in the log. `copy_of`: the offset of what it brings back.
    `told`: transactions that it says landed, with all before them in the series. `is_mark`: it is a leader's mark.
    """

    offset: int
    stamp: Stamp | None
    copy_of: int | None = None
    told: tuple[Transaction, ...] = ()
    is_mark: bool = False


def landed_header(transaction: Transaction) -> tuple[str, bytes]:
    return LANDED_HEADER, f"{transaction[0]}.{transaction[1]}".encode()


def read_stamp(headers: Headers) -> Stamp | None:
    """None where there is none, as in what earlier versions wrote."""
    series, *numbers = (dict(headers).get(STAMP_HEADER) or b"").decode(errors="replace").split(".")
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return None
    return Stamp(series, *map(int, numbers))


def read_found(offset: int, headers: Headers) -> HiddenRecord:
    own = _own(headers)
    of = (dict(own).get(COPY_HEADER) or b"").decode(errors="replace")
    copy_of = int(of) if of.isdecimal() else None
    is_mark = any(name == LEADER_HEADER for name, _ in headers)
    return HiddenRecord(offset, read_stamp(headers), copy_of, tuple(_read_landed(own)), is_mark)


def make_copy(found: HiddenRecord, record: OutgoingKafkaRecord) -> OutgoingKafkaRecord:
    """What brings back `record`, before it is stamped. It says that the one which it stands for landed."""
    kept = tuple((name, value) for name, value in record.headers if name not in _OURS)
    told = [*found.told, found.stamp.transaction] if found.stamp is not None else found.told
    of = COPY_HEADER, str(found.offset).encode()
    return replace(record, headers=(*kept, of, *map(landed_header, told)))


def _own(headers: Headers) -> Headers:
    """What the journal says itself of a record: it comes last, with a stamp. Before it stands what the record is made
    of, as a dead letter of the headers of somebody's record, and that is nobody's word for what landed.
    """
    own = [*takewhile(lambda header: header[0] in _OURS, reversed(headers))]
    return own[::-1] if any(name == STAMP_HEADER for name, _ in own) else ()


def _read_landed(headers: Headers) -> Iterator[Transaction]:
    for name, value in headers:
        series, _, number = (value or b"").decode(errors="replace").partition(".")
        if name == LANDED_HEADER and number.isdecimal():
            yield series, int(number)

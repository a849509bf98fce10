"""How a session counts what it writes: a series for each hold on the journal, a number for each batch, an attempt for
each try.
"""

import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from recoveryd.adapters.kafka.journal_stamps import Stamp, Transaction
from recoveryd.adapters.kafka.transactions import Marks, OutgoingKafkaRecord

_LETTERS: Final = 12
_TRIED: Final = 8


class JournalSeries:
    """`token` is what is written under the current number, None before anything is. `acknowledged` says of each series
    of this process up to which number all landed.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[str, int] = {}
        self.token: object | None = None
        # Where records of the current number lie. Only the last attempts before a client is lost can be seen: whoever
        # makes one seen shuts it out.
        self.tried = deque[Marks](maxlen=_TRIED)
        self._name, self._number, self._attempt = _new_name(), 1, 0

    @property
    def transaction(self) -> Transaction:
        return self._name, self._number

    def begin(self) -> None:
        """A new one: what was tried under the number before has no certain end."""
        self._name, self._number = _new_name(), 1
        self._go_on()

    def stamp(self, records: Sequence[OutgoingKafkaRecord]) -> Sequence[OutgoingKafkaRecord]:
        """The records of the next attempt."""
        self._attempt += 1
        header = Stamp(*self.transaction, self._attempt, len(records)).header()
        return [replace(record, headers=(*record.headers, header)) for record in records]

    def note_tried(self, marks: Marks) -> None:
        if marks:
            self.tried.append(marks)

    def note_landed(self) -> None:
        """Of the current number, which stays the current one."""
        self.acknowledged[self._name] = self._number

    def acknowledge(self) -> None:
        """The current number landed; the next one follows."""
        self.note_landed()
        self._number += 1
        self._go_on()

    def _go_on(self) -> None:
        self._attempt, self.token = 0, None
        self.tried.clear()


def stamp_of_nothing() -> Stamp:
    """Of a record that is never committed: a transaction of no records is never whole."""
    return Stamp(_new_name(), 1, 1, 0)


def _new_name() -> str:
    return uuid.uuid4().hex[:_LETTERS]

"""Which commands came before, by idempotency key: bounded, in memory, rebuilt from the control topic at each start.

Source and id may be long, and of any sender; so a digest of both is kept.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.commands import Command, RefusedCommand, idempotency_key
from recoveryd.kernel.events import CommandReceived, Seen
from recoveryd.ports import Folded

KEPT_AT_MOST = 100_000  # some 40 MB, whatever is sent
JOURNALED_AT_MOST = 1_000  # of a cut, some 150 kB


class SeenLedger:
    """Remembers the first record of each key; forgets the oldest keys beyond `capacity`."""

    def __init__(self, earlier: Mapping[bytes, Seen] | None = None, capacity: int = KEPT_AT_MOST) -> None:
        self._capacity = capacity
        self._seen: OrderedDict[bytes, Seen] = OrderedDict(
            sorted((earlier or {}).items(), key=lambda entry: entry[1].offset)[-capacity:]
        )

    def __len__(self) -> int:
        return len(self._seen)

    def annotate(self, event: CommandReceived) -> CommandReceived:
        """The event with `previous` filled in if its key came before; from now on the key counts as seen."""
        source, command_id, content_hash = _identity(event.command)
        if not source or not command_id:
            return event
        key = idempotency_key(source, command_id)
        previous = self._seen.get(key)
        if previous is not None:
            return replace(event, previous=previous) if previous.offset < event.offset else event
        self._seen[key] = Seen(event.offset, content_hash)
        if len(self._seen) > self._capacity:
            self._seen.popitem(last=False)
        return event

    def was_decided(self, event: CommandReceived) -> bool:
        """Whether this very record was, as it lies at this offset: then it only comes again."""
        source, command_id, content_hash = _identity(event.command)
        return self._seen.get(idempotency_key(source, command_id)) == Seen(event.offset, content_hash)

    def decided_from(self, offset: int) -> dict[str, Seen]:
        """Those that lay there and behind, the first ones of very many, by idempotency key in hex."""
        found = sorted((entry for entry in self._seen.items() if entry[1].offset >= offset), key=lambda e: e[1].offset)
        return {key.hex(): seen for key, seen in found[:JOURNALED_AT_MOST]}


def known_of(folded: Folded) -> dict[bytes, Seen]:
    """What a new leader has to know: the first record of each key, and what was decided behind a cut of the topic."""
    return {bytes.fromhex(key): seen for key, seen in folded.daemon.decided.items()} | dict(folded.seen)


def _identity(command: Command | RefusedCommand) -> tuple[str, str, str]:
    if isinstance(command, RefusedCommand):
        return command.source, command.id, command.content_hash
    return command.meta.source, command.meta.id, command.meta.content_hash

"""Which commands came before, by idempotency key: bounded, in memory, rebuilt from the control topic at each start.

Source and id may be long, and of any sender; so a digest of both is kept.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.commands import Command, RefusedCommand, idempotency_key
from recoveryd.kernel.events import CommandReceived, Seen

KEPT_AT_MOST = 100_000  # some 40 MB, whatever is sent


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


def _identity(command: Command | RefusedCommand) -> tuple[str, str, str]:
    if isinstance(command, RefusedCommand):
        return command.source, command.id, command.content_hash
    return command.meta.source, command.meta.id, command.meta.content_hash

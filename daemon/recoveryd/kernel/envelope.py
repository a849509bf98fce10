"""The rules for every command, whatever its verb: each control record gets exactly one answer, and none acts twice or
late.
"""

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.draft import Draft
from recoveryd.kernel.events import CommandReceived


def refuse_by_envelope(draft: Draft, event: CommandReceived) -> bool:
    """Answer a command that is a duplicate, a conflict, refused by its form, or late. False = it is new and in time."""
    command = event.command
    content = command.content_hash if isinstance(command, RefusedCommand) else command.meta.content_hash
    previous = event.previous
    if previous is not None and previous.content_hash == content:
        draft.answer(event, "duplicate", f"this command was handled before, at control offset {previous.offset}")
        return True
    if previous is not None:
        message = f"the same id and source came with other content at control offset {previous.offset}"
        draft.answer(event, "rejected", message, Code.IDEMPOTENCY_CONFLICT.value)
        return True
    if isinstance(command, RefusedCommand):
        draft.answer(event, "rejected", command.message, command.code, command.hint)
        return True
    expiry_ms, at_ms = command.meta.expiry_ms, max(event.broker_ms, draft.now_ms)
    if expiry_ms is not None and at_ms > expiry_ms:
        late_s = (at_ms - expiry_ms) / 1000
        draft.answer(event, "expired", f"the command came {late_s:.0f} s after its expirytime", Code.EXPIRED.value)
        return True
    return False

"""A copy made by hand, as a user's own script would, with a plain producer and nothing of the product. Damage is an
edit of the records before they are written.
"""

from collections.abc import Callable, Sequence

from tests.builders.history import Draft, create_topics, produce
from tests.e2e.clients import writer
from tests.e2e.log_reader import read_log

Edit = Callable[[Sequence[Draft]], Sequence[Draft]]
_FLUSH_S = 120.0


def as_it_is(drafts: Sequence[Draft]) -> Sequence[Draft]:
    return drafts


def copy_by_hand(
    bootstrap: str, source: str, target: str, *, to: str | None = None, edit: Edit | Sequence[Edit] = as_it_is
) -> None:
    """Copy every committed record of `source` into the new topic `target`, on the cluster `to` (default: the same one).
    `edit` changes the records of partition 0; of several, each those of its partition.
    """
    into = to or bootstrap
    logs = read_log(bootstrap, source)
    create_topics(into, {target: len(logs)}, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    edits = [edit] if callable(edit) else edit
    producer = writer(into, linger_ms=20)
    for number, records in logs.items():
        drafts: Sequence[Draft] = [Draft(number, r.key, r.value, r.headers, r.time_ms) for r in records]
        for draft in edits[number](drafts) if number < len(edits) else drafts:
            produce(producer, target, draft)
            producer.poll(0)
    assert producer.flush(_FLUSH_S) == 0

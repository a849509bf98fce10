"""How much one workflow may change: its plan and what it takes to undo it are one status record, which has to stay in
what the status topic takes and every reader reads.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.facts import Committed
from recoveryd.workflows.positions import PartitionLook

RECORD_BYTES_MOST: Final = 6_000_000  # of the 8 MiB that the topic takes
_ROW_BYTES: Final = 280  # of a change and its undo in JSON, apart from names and metadata


def refuse_size(
    group: str, looks: Iterable[PartitionLook], committed: Mapping[str, Mapping[int, Committed]]
) -> Refused | None:
    """Before anything is changed. What is committed counts with its metadata, of which a group may write 4 KB each."""
    size, count = 0, 0
    for look in looks:
        entry = committed.get(look.topic, {}).get(look.partition)
        size += (
            _ROW_BYTES
            + len(group)
            + 2 * len(look.topic)
            + (len(json.dumps(entry.metadata)) if entry is not None else 0)
        )
        count += 1
    if size <= RECORD_BYTES_MOST:
        return None
    message = (
        f"{count:,} partitions need {size / 1e6:.1f} MB to be noted, and one workflow takes "
        f"{RECORD_BYTES_MOST / 1e6:.0f} MB"
    )
    return Refused(
        Code.TOO_MANY_CHANGES, message, "Send one command for some of the topics after the other (`topics`)."
    )

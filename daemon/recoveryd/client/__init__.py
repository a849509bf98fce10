"""For consumers of your own: they obey holds, as recoveries do.

    from recoveryd.client import HoldAwareConsumer

    consumer = HoldAwareConsumer({"bootstrap.servers": ..., "group.id": "reports"}, drain=finish_what_is_open)

It is confluent-kafka's `Consumer`. When somebody holds a topic that it reads, it takes no more records from there,
finishes and commits what it has, says so, and goes on by itself at release. docs/holds.md describes the records, for
programs in other languages.

Standard library and confluent-kafka only: of the rest of the daemon nothing is imported here but `recoveryd.sight`.
`book` and `heeding` decide, without I/O; `status`, `telling` and `consumer` carry it out. Start at `consumer`.
"""

from recoveryd.client.consumer import HoldAwareConsumer
from recoveryd.client.status import HoldsUnknown

__all__ = ["HoldAwareConsumer", "HoldsUnknown"]

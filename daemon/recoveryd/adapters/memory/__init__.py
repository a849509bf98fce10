"""Every port of the daemon without a broker, a Spark or a wall clock: the same behaviour over a Kafka that is a few
dictionaries.

For tests of everything above the ports, and for trying out a policy in virtual time. What the contract suites prove of
the real adapters they prove of these. Not durable, not for several processes, one thread. Start at `kafka`, then
`journal`.
"""

from recoveryd.adapters.memory.clock import ManualClock
from recoveryd.adapters.memory.clusters import MemoryClusters
from recoveryd.adapters.memory.command_sender import MemoryCommandSender
from recoveryd.adapters.memory.control_log import MemoryControlLog
from recoveryd.adapters.memory.jobs import MemoryJobs
from recoveryd.adapters.memory.journal import MemoryJournal
from recoveryd.adapters.memory.kafka import MemoryBroker, MemoryRecord
from recoveryd.adapters.memory.ledger import MemoryLedger
from recoveryd.adapters.memory.progress import MemoryProgressFeed

__all__ = [
    "ManualClock",
    "MemoryBroker",
    "MemoryClusters",
    "MemoryCommandSender",
    "MemoryControlLog",
    "MemoryJobs",
    "MemoryJournal",
    "MemoryLedger",
    "MemoryProgressFeed",
    "MemoryRecord",
]

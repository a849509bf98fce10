"""Every port of the daemon without a broker, a Spark or a wall clock: the same behaviour over a Kafka that is a few dictionaries.

For tests of everything above the ports, and for trying out a policy in virtual time. What the contract suites prove of the real adapters they prove of
these. Not durable, not for several processes, one thread.
"""

from daemon.adapters.memory.clock import ManualClock
from daemon.adapters.memory.clusters import MemoryClusters
from daemon.adapters.memory.control_log import MemoryControlLog
from daemon.adapters.memory.jobs import MemoryJobs
from daemon.adapters.memory.journal import MemoryJournal
from daemon.adapters.memory.kafka import MemoryBroker, MemoryRecord
from daemon.adapters.memory.ledger import MemoryLedger
from daemon.adapters.memory.progress import MemoryProgressFeed

__all__ = [
    "ManualClock",
    "MemoryBroker",
    "MemoryClusters",
    "MemoryControlLog",
    "MemoryJobs",
    "MemoryJournal",
    "MemoryLedger",
    "MemoryProgressFeed",
    "MemoryRecord",
]

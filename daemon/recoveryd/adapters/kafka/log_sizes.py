"""How many bytes the partitions of a topic take on their leaders' disks (Kafka's DescribeLogDirs).

The number is a convenience for plans: whatever goes wrong here (a missing right, another broker or another aiokafka)
leads to None, and sizes are then estimated from samples.
"""

import logging
from collections.abc import Mapping

from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.settings.kafka_properties import ClientAccess

_log = logging.getLogger("recoveryd.kafka")

_DEADLINE_S = 3.0


class LogSizes:
    """On named clusters. A cluster without an access has no sizes."""

    def __init__(self, accesses: Mapping[str, ClientAccess]) -> None:
        self._accesses = accesses

    async def read(self, cluster: str, topic: str, leaders: Mapping[int, int]) -> dict[int, int] | None:
        """Bytes on disk by partition; `leaders` maps partition to broker id. Partitions without an answer are absent;
        None when there was no answer at all.
        """
        if cluster not in self._accesses:
            return None
        sizes: dict[int, int] = {}
        try:
            async with connected(
                self._accesses[cluster], "recoveryd-sizes", f"read log sizes of {topic}", _DEADLINE_S
            ) as client:
                for broker in sorted(set(leaders.values())):
                    sizes |= await client.log_sizes(broker, topic, [p for p, at in leaders.items() if at == broker])
        except Exception as error:  # noqa: BLE001  (see the module's docstring: a plan is never refused for want of this number)
            _log.info("No log sizes of %s, they will be estimated: %s: %s", topic, type(error).__name__, error)
            return None
        return sizes or None

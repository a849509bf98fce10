"""Where the local part of a topic with remote storage begins (Kafka's ListOffsets for the earliest local offset).

The answer makes a forecast better: whatever goes wrong here (an old broker, another aiokafka) leads to None, and a plan
then says that the remote part is not known.
"""

import logging
from collections.abc import Mapping

from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.settings.kafka_properties import ClientAccess

_log = logging.getLogger("recoveryd.kafka")

_DEADLINE_S = 5.0


class LocalStarts:
    """On named clusters. Of a cluster without an access nothing is known."""

    def __init__(self, accesses: Mapping[str, ClientAccess]) -> None:
        self._accesses = accesses

    async def read(self, cluster: str, topic: str, leaders: Mapping[int, int]) -> dict[int, int] | None:
        """The first local offset by partition; `leaders` maps partition to broker id. None when there was no answer."""
        if cluster not in self._accesses:
            return None
        found: dict[int, int] = {}
        try:
            doing = f"read where local storage of {topic} begins"
            async with connected(self._accesses[cluster], "recoveryd-local-starts", doing, _DEADLINE_S) as client:
                for broker in sorted(set(leaders.values())):
                    asked = [partition for partition, at in leaders.items() if at == broker]
                    found |= await client.local_starts(broker, topic, asked)
        except Exception as error:  # noqa: BLE001  (see the module's docstring: a plan is never refused for want of this number)
            _log.info("Not known where local storage of %s begins: %s: %s", topic, type(error).__name__, error)
            return None
        return found

"""What only the leaders of a topic's partitions know: how many bytes each partition takes on their disks (Kafka's
DescribeLogDirs), and where the local part of a topic with remote storage begins (ListOffsets for the earliest local
offset).

Both make plans better and no plan needs them: whatever goes wrong here (a missing right, an old broker, another
aiokafka) leads to None. Sizes are then estimated from samples, and a plan says that the remote part is not known.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from recoveryd.adapters.kafka.raw_requests import RawClient, connected
from recoveryd.settings.kafka_properties import ClientAccess

_log = logging.getLogger("recoveryd.kafka")


class _Question(NamedTuple):
    what: str
    ask: Callable[[RawClient, int, str, Sequence[int]], Awaitable[dict[int, int]]]
    client_id: str
    deadline_s: float


_SIZES: Final = _Question("log sizes", RawClient.log_sizes, "recoveryd-sizes", 3.0)
_STARTS: Final = _Question("local starts", RawClient.local_starts, "recoveryd-local-starts", 5.0)


class LeaderAnswers:
    """Of named clusters; nothing is known of a cluster without an access. `leaders` maps partition to broker id.
    Partitions without an answer are absent; None when there was no answer at all.
    """

    def __init__(self, accesses: Mapping[str, ClientAccess]) -> None:
        self._accesses = accesses

    async def log_sizes(self, cluster: str, topic: str, leaders: Mapping[int, int]) -> dict[int, int] | None:
        """Bytes on disk by partition."""
        return await self._ask(_SIZES, cluster, topic, leaders)

    async def local_starts(self, cluster: str, topic: str, leaders: Mapping[int, int]) -> dict[int, int] | None:
        """The first local offset by partition."""
        return await self._ask(_STARTS, cluster, topic, leaders)

    async def _ask(
        self, question: _Question, cluster: str, topic: str, leaders: Mapping[int, int]
    ) -> dict[int, int] | None:
        access, what = self._accesses.get(cluster), f"{question.what} of {topic}"
        if access is None:
            return None
        found: dict[int, int] = {}

        async def ask(client: RawClient, broker: int) -> None:
            """One that is silent, or refuses, costs only its own answer."""
            asked = [partition for partition, at in leaders.items() if at == broker]
            try:
                found.update(await question.ask(client, broker, topic, asked))
            except Exception as error:  # noqa: BLE001  (as below)
                _log.info("No %s from broker %d: %s: %s", what, broker, type(error).__name__, error)

        try:
            async with connected(access, question.client_id, f"read {what}", question.deadline_s) as client:
                await asyncio.gather(*(ask(client, broker) for broker in sorted(set(leaders.values()))))
        except Exception as error:  # noqa: BLE001  (see the module's docstring: a plan is never refused for want of a number)
            _log.info("Not all %s: %s: %s", what, type(error).__name__, error)
        return found or None

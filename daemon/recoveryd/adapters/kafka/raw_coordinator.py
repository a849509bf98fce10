"""The coordinator of a transactional id, asked through internals of aiokafka as `raw_requests` does: looked up once,
and again when it moved. What may have begun is asked for until there is an answer, because whoever takes the id next
aborts it.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.api import RequestStruct

from recoveryd.units.features import name_of

NOT_AUTHORISED: Final = frozenset({29, 30, 31, 53, 58})  # topic, group, cluster or transactional id, SASL login
# A topic without a leader as after a start, timeout, network, the coordinator loads, is not there or elsewhere, the
# transaction before is being ended.
NOT_YET: Final = frozenset({3, 7, 13, 14, 15, 16, 51})
_MOVED: Final = frozenset({15, 16})
NOT_TRIED: Final = 55  # since another partition was refused
_PAUSE_S: Final = 0.1

Codes = Callable[[Any], Iterable[int]]  # the error codes in an answer


class Question:
    """What aiokafka's connections take for a request: they ask it for the form that fits the broker."""

    def __init__(self, form: RequestStruct) -> None:
        self._form = form

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RequestStruct:
        lowest, highest = versions.get(self._form.API_KEY, (1, 0))
        if not lowest <= self._form.API_VERSION <= highest:
            raise IncompatibleBrokerVersion(name_of(self._form.API_KEY))
        return self._form


class TransactionCoordinator:
    """`client` is aiokafka's."""

    def __init__(self, client: Any, transactional_id: str) -> None:
        self._client = client
        self._id = transactional_id
        self._node: int | None = None

    async def ask(self, form: RequestStruct, codes: Codes, give_up_s: float) -> Any:
        """Ask something that does no harm twice, until the answer is final or `give_up_s` has come: then the last
        answer, or what kept it away. Raises `KafkaError`.
        """
        while True:
            try:
                answer = await self._ask_once(form)
            except KafkaError as error:
                is_final = (
                    isinstance(error, IncompatibleBrokerVersion) or getattr(error, "errno", None) in NOT_AUTHORISED
                )
                if is_final or time.monotonic() >= give_up_s:
                    raise
                self._node = None
            else:
                found = set(codes(answer)) - {0, NOT_TRIED}
                if not found or not found <= NOT_YET or time.monotonic() >= give_up_s:
                    return answer
                self._node = None if found & _MOVED else self._node
            await asyncio.sleep(_PAUSE_S)

    async def _ask_once(self, form: RequestStruct) -> Any:
        if self._node is None:
            self._node = await self._client.coordinator_lookup(CoordinationType.TRANSACTION, self._id)
        return await self._client.send(self._node, Question(form), group=ConnectionGroup.COORDINATION)

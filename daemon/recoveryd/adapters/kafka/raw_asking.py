"""How one cluster is asked through internals of aiokafka, and what becomes of the errors that brokers answer. What is
asked is in `raw_groups` and `raw_requests`.

A coordinator that just started, or just took over, answers that it loads. Nothing was done then, and it is over in a
moment, so it is asked again here: who looks at a hundred groups would begin with the first one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.protocol.api import RequestStruct
from confluent_kafka import KafkaError

from recoveryd.adapters.kafka.client import ELSEWHERE_SOON
from recoveryd.adapters.kafka.raw_coordinator import NOT_AUTHORISED, Codes, Question
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code

_LOADING: Final = frozenset({14, 15, 16})  # the coordinator loads, is not there or elsewhere
# Besides: unknown server error, timeout, network, an earlier or a later holder of a transactional id, the transaction
# before is being ended, throttled.
_RETRIABLE: Final = ELSEWHERE_SOON | {-1, 7, 13, 47, 51, 89, 90}
_PAUSE_S: Final = 0.1
_NOT_EMPTY: Final = frozenset({68, 86})  # the group has members, or reads this topic
_WORDS: Final = {68: "the group has members", 86: "the group has members that read the topic"}


class RawAsker:
    """Asks one cluster. `doing` says in a problem what was wanted. Until `give_up_s` (monotonic) a coordinator that
    loads is asked again.
    """

    def __init__(self, client: Any, doing: str, give_up_s: float = 0.0) -> None:
        self._client = client
        self._doing = doing
        self._give_up_s = give_up_s

    async def _ask_any(self, form: RequestStruct) -> Any:
        return await self._client.send(self._client.get_random_node(), Question(form))

    async def _ask_broker(self, node: int, form: RequestStruct) -> Any:
        """For what it knows as a coordinator."""

        async def ask() -> Any:
            return await self._client.send(node, Question(form))

        return await self._once_loaded(ask, code_of)

    async def _ask_coordinator(self, group: str, form: RequestStruct, codes: Codes) -> Any:
        async def ask() -> Any:
            node = await self._client.coordinator_lookup(CoordinationType.GROUP, group)
            return await self._client.send(node, Question(form), group=ConnectionGroup.COORDINATION)

        return await self._once_loaded(ask, codes)

    async def _once_loaded(self, ask: Callable[[], Awaitable[Any]], codes: Codes) -> Any:
        while True:
            is_last = time.monotonic() >= self._give_up_s
            try:
                answer = await ask()
            except AioKafkaError as error:
                if is_last or getattr(error, "errno", None) not in _LOADING:
                    raise
            else:
                if is_last or _LOADING.isdisjoint(codes(answer)):
                    return answer
            await asyncio.sleep(_PAUSE_S)

    def _check(
        self, error_code: int, message: str | None, needed: str = "", passing: frozenset[int] = frozenset()
    ) -> None:
        """`needed`: the right without which a broker refuses this. `passing`: what is worth another try besides."""
        if error_code:
            lacks = f"the user lacks {needed}" if needed else "the daemon has no right to it"
            refused = error_code in NOT_AUTHORISED
            text = message or (lacks if refused else _WORDS.get(error_code) or KafkaError(error_code).str())
            raise ClusterProblem(
                f"Could not {self._doing}: {text}",
                code=_code(error_code),
                retriable=error_code in _RETRIABLE | _NOT_EMPTY | passing,
            )


def code_of(answer: Any) -> Iterable[int]:
    return (answer.error_code,)


def codes_by_partition(topics: Iterable[tuple[str, Iterable[tuple[int, int]]]]) -> Iterable[int]:
    return (error_code for _topic, rows in topics for _partition, error_code in rows)


def _code(error_code: int) -> Code:
    if error_code in NOT_AUTHORISED:
        return Code.NOT_AUTHORISED
    return Code.GROUP_NOT_EMPTY if error_code in _NOT_EMPTY else Code.CLUSTER_UNREACHABLE

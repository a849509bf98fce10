"""How one cluster is asked through internals of aiokafka, and what becomes of the errors that brokers answer. What is
asked is in `raw_groups` and `raw_requests`.
"""

from typing import Any, Final

from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.protocol.api import RequestStruct

from recoveryd.adapters.kafka.raw_coordinator import NOT_AUTHORISED, Question
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code

# Unknown server error, timeout, network, the coordinator loads, is not there or elsewhere, not the controller,
# an earlier or a later holder of a transactional id, the transaction before is being ended, throttled.
_RETRIABLE: Final = frozenset({-1, 7, 13, 14, 15, 16, 41, 47, 51, 89, 90})
_NOT_EMPTY: Final = frozenset({68, 86})  # the group has members, or reads this topic
_WORDS: Final = {68: "the group has members", 86: "the group has members that read the topic"}


class RawAsker:
    """Asks one cluster. `doing` says in a problem what was wanted."""

    def __init__(self, client: Any, doing: str) -> None:
        self._client = client
        self._doing = doing

    async def _ask_any(self, form: RequestStruct) -> Any:
        return await self._client.send(self._client.get_random_node(), Question(form))

    async def _ask_coordinator(self, group: str, form: RequestStruct) -> Any:
        node = await self._client.coordinator_lookup(CoordinationType.GROUP, group)
        return await self._client.send(node, Question(form), group=ConnectionGroup.COORDINATION)

    def _check(
        self, error_code: int, message: str | None, needed: str = "", passing: frozenset[int] = frozenset()
    ) -> None:
        """`needed`: the right without which a broker refuses this. `passing`: what is worth another try besides."""
        if error_code:
            lacks = f"the user lacks {needed}" if needed else "the daemon has no right to it"
            refused = error_code in NOT_AUTHORISED
            text = message or (lacks if refused else _WORDS.get(error_code) or f"error {error_code}")
            raise ClusterProblem(
                f"Could not {self._doing}: {text}",
                code=_code(error_code),
                retriable=error_code in _RETRIABLE | _NOT_EMPTY | passing,
            )


def _code(error_code: int) -> Code:
    if error_code in NOT_AUTHORISED:
        return Code.NOT_AUTHORISED
    return Code.GROUP_NOT_EMPTY if error_code in _NOT_EMPTY else Code.CLUSTER_UNREACHABLE

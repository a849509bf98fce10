"""Kafka's client quotas on recoveries: the one place that speaks Describe- and AlterClientQuotas.

librdkafka has no call for them. aiokafka, which Faust brings along, knows the first request and carries the second, so no third Kafka client is needed.
Touched are only quotas of exactly one client id that this installation's recoveries have, and of those only the two byte rates: no default, no user's,
no other program's. Any broker takes the requests and passes changes on to the controller.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import DescribeClientQuotasRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Float64, Int16, Int32, Schema, String

from recoveryd.adapters.kafka.oauth_tokens import TokenProvider
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.effects import SetQuota, SweepQuotas
from recoveryd.recovery.events import QuotaSet, QuotasSwept
from recoveryd.settings.kafka_properties import ClientAccess, make_ssl_context
from recoveryd_jobs.contract import copy_client_id

DEADLINE_S: Final = 10.0
CONSUME: Final = "consumer_byte_rate"
PRODUCE: Final = "producer_byte_rate"
_CLIENT_ID: Final = "client-id"
_ANY_NAMED: Final = 2  # match type: whatever has a name, so not the default
_NOT_AUTHORISED: Final = frozenset({29, 31, 58})  # topic or cluster authorization, SASL login
_RETRIABLE: Final = frozenset(
    {-1, 7, 13, 41, 84}
)  # unknown server error, time-out, network, not the controller, throttled
_ENTITY: Final = ("entity", Array(("entity_type", String("utf-8")), ("entity_name", String("utf-8"))))

Ops = list[tuple[str, float, bool]]


class _AlterAnswer(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 49
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("entries", Array(("error_code", Int16), ("error_message", String("utf-8")), _ENTITY)),
    )


class _AlterQuestion(RequestStruct):  # type: ignore[misc]
    API_KEY = 49
    API_VERSION = 0
    RESPONSE_TYPE = _AlterAnswer
    SCHEMA = Schema(
        ("entries", Array(_ENTITY, ("ops", Array(("key", String("utf-8")), ("value", Float64), ("remove", Boolean))))),
        ("validate_only", Boolean),
    )


class _AlterRequest(Request[_AlterQuestion]):  # type: ignore[misc]
    API_KEY = 49

    def __init__(self, changes: Mapping[str, Ops]) -> None:
        self._entries = [([(_CLIENT_ID, name)], ops) for name, ops in changes.items()]

    def build(self, request_struct_class: type[_AlterQuestion]) -> _AlterQuestion:
        return request_struct_class(self._entries, False)


class KafkaClientQuotas:
    """Quotas of recoveries of one `scope`, on named clusters. A connection per call: there are few, and none is worth keeping open."""

    def __init__(self, accesses: Mapping[str, ClientAccess], scope: str) -> None:
        self._accesses = accesses
        self._scope = scope

    async def set(self, effect: SetQuota) -> QuotaSet:
        """Raises `ClusterProblem`. After a refusal by one cluster there is no quota on the other either."""
        rates: dict[str, list[str]] = {}
        wanted = (
            (effect.source_cluster, [CONSUME]),
            (effect.target_cluster, [PRODUCE, CONSUME]),
        )  # a verification reads both
        for cluster, kinds in wanted:
            rates[cluster] = list(dict.fromkeys((*rates.get(cluster, ()), *kinds)))
        done: dict[str, list[str]] = {}
        for cluster, names in rates.items():
            try:
                await self._alter(cluster, effect.recovery, names, effect.bytes_per_s)
            except ClusterProblem as problem:
                if not problem.retriable and effect.bytes_per_s is not None:
                    for earlier, set_names in done.items():
                        await self._alter(earlier, effect.recovery, set_names, None)
                raise
            done[cluster] = names
        return QuotaSet(effect.recovery, effect.bytes_per_s)

    async def sweep(self, effect: SweepQuotas) -> QuotasSwept:
        """Remove what belongs to recoveries not in `keep`. Raises `ClusterProblem` when later may help; a refusal is part of the answer."""
        try:
            async with self._connected(effect.cluster) as client:
                found = await self._describe(client, effect.cluster)
                gone = {recovery: names for recovery, names in found.items() if recovery not in effect.keep}
                changes = {
                    copy_client_id(self._scope, recovery): [(name, 0.0, True) for name in sorted(names)]
                    for recovery, names in gone.items()
                }
                if changes:
                    await _send(client, _AlterRequest(changes), effect.cluster)
        except ClusterProblem as problem:
            if problem.retriable:
                raise
            return QuotasSwept(effect.cluster, refused=problem.message)
        kept = tuple(
            sorted((recovery, max(names.values())) for recovery, names in found.items() if recovery not in gone)
        )
        return QuotasSwept(effect.cluster, kept, tuple(sorted(gone)))

    async def _alter(self, cluster: str, recovery: str, names: list[str], bytes_per_s: float | None) -> None:
        whole = float(math.ceil(bytes_per_s or 0.0))  # brokers take no fractions of a byte
        ops: Ops = [(name, whole, bytes_per_s is None) for name in names]
        async with self._connected(cluster) as client:
            await _send(client, _AlterRequest({copy_client_id(self._scope, recovery): ops}), cluster)

    async def _describe(self, client: Any, cluster: str) -> dict[str, dict[str, float]]:
        """The byte rates of this installation's recoveries, by recovery and name of the rate."""
        answer = await _ask(client, DescribeClientQuotasRequest([(_CLIENT_ID, _ANY_NAMED, None)], True))
        _check(answer.error_code, answer.error_message, cluster)
        ours = copy_client_id(self._scope, "")
        found: dict[str, dict[str, float]] = {}
        for entity, values in answer.entries or ():
            rates = {name: value for name, value in values if name in {CONSUME, PRODUCE}}
            if len(entity) == 1 and entity[0][0] == _CLIENT_ID and (entity[0][1] or "").startswith(ours) and rates:
                found[entity[0][1].removeprefix(ours)] = rates
        return found

    @asynccontextmanager
    async def _connected(self, cluster: str) -> AsyncIterator[Any]:
        """A client within the deadline of the whole call. Foreign errors leave as `ClusterProblem`."""
        access = self._accesses[cluster]
        client: Any = None
        try:
            async with asyncio.timeout(DEADLINE_S):
                client = AIOKafkaClient(**_arguments(access))
                await client.bootstrap()
                yield client
        except KafkaError as error:
            refused = getattr(error, "errno", None) in _NOT_AUTHORISED
            code = Code.NOT_AUTHORISED if refused else Code.CLUSTER_UNREACHABLE
            raise ClusterProblem(_sentence(cluster, str(error)), code=code, retriable=not refused) from error
        except (TimeoutError, OSError) as error:
            text = str(error) or f"no answer within {DEADLINE_S:.0f} s"
            raise ClusterProblem(_sentence(cluster, text)) from error
        finally:
            if client is not None:
                await client.close()


def _arguments(access: ClientAccess) -> dict[str, Any]:
    return {
        "bootstrap_servers": access.bootstrap,
        "client_id": "recoveryd-quotas",
        "request_timeout_ms": int(DEADLINE_S * 1000),
        "security_protocol": access.protocol,
        "ssl_context": make_ssl_context(access.tls) if access.tls is not None else None,
        "sasl_mechanism": access.mechanism or "PLAIN",
        "sasl_plain_username": access.username,
        "sasl_plain_password": access.password,
        "sasl_oauth_token_provider": TokenProvider(access.oauth) if access.oauth is not None else None,
    }


async def _ask(client: Any, request: Any) -> Any:
    node = client.get_random_node()
    return await client.send(node, request)


async def _send(client: Any, request: _AlterRequest, cluster: str) -> None:
    answer = await _ask(client, request)
    for error_code, error_message, _entity in answer.entries or ():
        _check(error_code, error_message, cluster)


def _check(error_code: int, message: str | None, cluster: str) -> None:
    if error_code:
        refused = error_code in _NOT_AUTHORISED
        code = Code.NOT_AUTHORISED if refused else Code.CLUSTER_UNREACHABLE
        text = message or ("the daemon's user may not change client quotas" if refused else f"error {error_code}")
        raise ClusterProblem(_sentence(cluster, text), code=code, retriable=error_code in _RETRIABLE)


def _sentence(cluster: str, text: str) -> str:
    return f"Could not set client quotas on the cluster {cluster}: {text}"

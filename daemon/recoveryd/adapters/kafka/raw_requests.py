"""Kafka requests that librdkafka has no call for, sent through internals of aiokafka. Only this module uses them.

aiokafka comes with Faust, so no third client library is needed. It knows DescribeClientQuotas; the fields of
AlterClientQuotas and DescribeLogDirs are defined here. Internals may change with any version:
`tests/runtime/test_raw_requests.py` compares what the pinned version sends and reads with Kafka's protocol.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.admin import DescribeClientQuotasRequest_v0
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Float64, Int16, Int32, Int64, Schema, String

from recoveryd.adapters.kafka.oauth_tokens import TokenProvider
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess, make_ssl_context

Entity = Sequence[tuple[str, str | None]]  # pairs of a type such as client-id and a name
Change = tuple[str, float, bool]  # a quota's name, its value, and whether it is removed

_ANY_NAMED: Final = 2  # match type: whatever has a name, so not the default
_NOT_AUTHORISED: Final = frozenset({29, 31, 58})  # topic or cluster authorization, SASL login
# Unknown server error, time-out, network, not the controller, throttled.
_RETRIABLE: Final = frozenset({-1, 7, 13, 41, 84})
_TEXT: Final = String("utf-8")
_ENTITY: Final = ("entity", Array(("entity_type", _TEXT), ("entity_name", _TEXT)))
_SIZES: Final = (("partition", Int32), ("size", Int64), ("offset_lag", Int64), ("is_future", Boolean))


class _QuotasAltered(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY, API_VERSION = 49, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("entries", Array(("error_code", Int16), ("error_message", _TEXT), _ENTITY)),
    )


class _AlterQuotas(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = 49, 0, _QuotasAltered
    SCHEMA = Schema(
        ("entries", Array(_ENTITY, ("ops", Array(("key", _TEXT), ("value", Float64), ("remove", Boolean))))),
        ("validate_only", Boolean),
    )


class _LogDirs(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 35, 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            Array(
                ("error_code", Int16),
                ("log_dir", _TEXT),
                ("topics", Array(("name", _TEXT), ("partitions", Array(*_SIZES)))),
            ),
        ),
    )


class _DescribeLogDirs(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = 35, 1, _LogDirs
    SCHEMA = Schema(("topics", Array(("topic", _TEXT), ("partitions", Array(Int32)))))


class _Question:
    """What aiokafka's connections take for a request: they ask it for the form that fits the broker."""

    def __init__(self, form: RequestStruct) -> None:
        self._form = form

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RequestStruct:
        lowest, highest = versions.get(self._form.API_KEY, (1, 0))
        if not lowest <= self._form.API_VERSION <= highest:
            raise IncompatibleBrokerVersion(f"no version {self._form.API_VERSION} of request {self._form.API_KEY}")
        return self._form


class RawClient:
    """Asks one cluster; made by `connected`. `doing` says in a problem what was wanted."""

    def __init__(self, client: Any, doing: str) -> None:
        self._client = client
        self._doing = doing

    async def client_quotas(self, entity_type: str) -> Iterable[tuple[Entity, Sequence[tuple[str, float]]]]:
        """Quotas of whatever is named by this type alone. Raises `ClusterProblem`."""
        answer = await self._ask_any(DescribeClientQuotasRequest_v0([(entity_type, _ANY_NAMED, None)], True))
        self._check(answer.error_code, answer.error_message)
        return answer.entries or ()

    async def alter_client_quotas(self, entity_type: str, changes: Mapping[str, Sequence[Change]]) -> None:
        """`changes` by the entity's name. Any broker passes them on to the controller. Raises `ClusterProblem`."""
        entries = [([(entity_type, name)], list(ops)) for name, ops in changes.items()]
        for error_code, error_message, _entity in (await self._ask_any(_AlterQuotas(entries, False))).entries or ():
            self._check(error_code, error_message)

    async def log_sizes(self, broker: int, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Bytes on the broker's disks by partition. A copy that is being moved to another disk counts once."""
        answer = await self._client.send(broker, _Question(_DescribeLogDirs([(topic, list(partitions))])))
        return {
            partition: size
            for _error, _dir, topics in answer.results
            for _name, found in topics
            for partition, size, _lag, is_future in found
            if not is_future
        }

    async def _ask_any(self, form: RequestStruct) -> Any:
        return await self._client.send(self._client.get_random_node(), _Question(form))

    def _check(self, error_code: int, message: str | None) -> None:
        if error_code:
            refused = error_code in _NOT_AUTHORISED
            code = Code.NOT_AUTHORISED if refused else Code.CLUSTER_UNREACHABLE
            text = message or ("the daemon has no right to it" if refused else f"error {error_code}")
            raise ClusterProblem(f"Could not {self._doing}: {text}", code=code, retriable=error_code in _RETRIABLE)


@asynccontextmanager
async def connected(access: ClientAccess, name: str, doing: str, deadline_s: float) -> AsyncIterator[RawClient]:
    """A client with the client id `name`. The deadline covers everything that is asked; other libraries' errors become
    `ClusterProblem`.
    """
    client: Any = None
    try:
        async with asyncio.timeout(deadline_s):
            client = AIOKafkaClient(
                bootstrap_servers=access.bootstrap,
                client_id=name,
                request_timeout_ms=int(deadline_s * 1000),
                security_protocol=access.protocol,
                ssl_context=make_ssl_context(access.tls) if access.tls is not None else None,
                sasl_mechanism=access.mechanism or "PLAIN",
                sasl_plain_username=access.username,
                sasl_plain_password=access.password,
                sasl_oauth_token_provider=TokenProvider(access.oauth) if access.oauth is not None else None,
            )
            await client.bootstrap()
            yield RawClient(client, doing)
    except KafkaError as error:
        refused = getattr(error, "errno", None) in _NOT_AUTHORISED
        code = Code.NOT_AUTHORISED if refused else Code.CLUSTER_UNREACHABLE
        raise ClusterProblem(f"Could not {doing}: {error}", code=code, retriable=not refused) from error
    except (TimeoutError, OSError) as error:
        text = str(error) or f"no answer within {deadline_s:.0f} s"
        raise ClusterProblem(f"Could not {doing}: {text}") from error
    finally:
        if client is not None:
            await client.close()

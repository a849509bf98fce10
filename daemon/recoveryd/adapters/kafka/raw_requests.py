"""Kafka requests that librdkafka has no call for, sent through internals of aiokafka. Only this module and the others
whose names begin with `raw_` use them; `raw_groups` has those about groups.

aiokafka comes with Faust, so no third client library is needed. It knows DescribeClientQuotas and the requests of
transactions; the fields of all others are in `raw_forms` and `raw_descriptions`. Internals may change with any version:
`tests/runtime/test_raw_requests.py` compares what the pinned version sends and reads with Kafka's protocol.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.admin import ApiVersionRequest_v0, DescribeClientQuotasRequest_v0
from aiokafka.protocol.api import RequestStruct
from aiokafka.protocol.fetch import FetchRequest_v4
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest_v0, EndTxnRequest_v0, InitProducerIdRequest_v0

from recoveryd.adapters.kafka.oauth_tokens import TokenProvider
from recoveryd.adapters.kafka.raw_asking import code_of, codes_by_partition
from recoveryd.adapters.kafka.raw_coordinator import (
    NOT_AUTHORISED,
    NOT_TRIED,
    NOT_YET,
    Question,
    TransactionCoordinator,
)
from recoveryd.adapters.kafka.raw_descriptions import DescribeProducers, ListTransactions
from recoveryd.adapters.kafka.raw_forms import AlterQuotas, DescribeLogDirs, ListOffsets
from recoveryd.adapters.kafka.raw_groups import RawGroups
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess, make_ssl_context

Entity = Sequence[tuple[str, str | None]]  # pairs of a type such as client-id and a name
Change = tuple[str, float, bool]  # a quota's name, its value, and whether it is removed

_ANY_NAMED: Final = 2  # match type: whatever has a name, so not the default
_BEFORE_TIME_OUT_S: Final = 5.0  # a transaction is not asked for any longer than this before the broker aborts it
_LOCAL_START: Final = -4  # in place of a time: the first offset on the leader's own disk
_ANY_EPOCH: Final = -1
_NO_REPLICA: Final = -1
_COMMITTED: Final = 1  # the isolation level at which aborted transactions are told
_LEAST_BYTES: Final = 1  # the records themselves are not wanted
_FETCH_BYTES: Final = 1_048_576
_UNHEARD_OF: Final = frozenset({3})  # a broker that was just chosen to lead a partition may not know of it yet


@dataclass(frozen=True, slots=True)
class Producing:
    """Who wrote to a partition: its producer id, when it did last, and whether it did in transactions."""

    topic: str
    partition: int
    producer_id: int
    at_ms: int
    is_transactional: bool


class _WhichRequests:
    """Keeps what a connection knows of its broker, while it is asked something that every broker answers."""

    def __init__(self) -> None:
        self.versions: Mapping[int, tuple[int, int]] = {}

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RequestStruct:
        self.versions = dict(versions)
        return ApiVersionRequest_v0()


class RawClient(RawGroups):
    """Asks one cluster; made by `connected`."""

    async def apis(self) -> dict[int, tuple[int, int]]:
        """Keys of the requests that every broker answers, with the lowest and the highest version of which that is
        true. Raises `ClusterProblem`.
        """
        found: list[Mapping[int, tuple[int, int]]] = []
        for broker in self._client.cluster.brokers():
            question = _WhichRequests()
            await self._client.send(broker.nodeId, question)
            found.append(question.versions)
        common = set.intersection(*(set(each) for each in found)) if found else set()
        return {
            key: (max(each[key][0] for each in found), min(each[key][1] for each in found)) for key in sorted(common)
        }

    async def client_quotas(self, entity_type: str) -> Iterable[tuple[Entity, Sequence[tuple[str, float]]]]:
        """Quotas of whatever is named by this type alone. Raises `ClusterProblem`."""
        answer = await self._ask_any(DescribeClientQuotasRequest_v0([(entity_type, _ANY_NAMED, None)], True))
        self._check(answer.error_code, answer.error_message)
        return answer.entries or ()

    async def quotas_by_client_id(self) -> dict[str, dict[str, float]]:
        """Of each client id that has quotas by itself, by their names. Raises `ClusterProblem`."""
        told = await self.client_quotas("client-id")
        return {
            entity[0][1] or "": dict(values) for entity, values in told if [kind for kind, _ in entity] == ["client-id"]
        }

    async def alter_client_quotas(self, entity_type: str, changes: Mapping[str, Sequence[Change]]) -> None:
        """`changes` by the entity's name. Any broker passes them on to the controller. Raises `ClusterProblem`."""
        entries = [([(entity_type, name)], list(ops)) for name, ops in changes.items()]
        for error_code, error_message, _entity in (await self._ask_any(AlterQuotas(entries, False))).entries or ():
            self._check(error_code, error_message)

    async def log_sizes(self, broker: int, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Bytes on the broker's disks by partition. A copy that is being moved to another disk counts once."""
        answer = await self._client.send(broker, Question(DescribeLogDirs([(topic, list(partitions))])))
        return {
            partition: size
            for _error, _dir, topics in answer.results
            for _name, found in topics
            for partition, size, _lag, is_future in found
            if not is_future
        }

    async def local_starts(self, broker: int, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """By partition, the first offset that lies on the broker's own disk; of a topic with remote storage, earlier
        ones are read from there. Raises `ClusterProblem`.
        """
        empty: dict[int, bytes] = {}
        asked = [(partition, _ANY_EPOCH, _LOCAL_START, empty) for partition in partitions]
        answer = await self._client.send(broker, Question(ListOffsets(_NO_REPLICA, 0, [(topic, asked, empty)], empty)))
        found = {}
        for _name, rows, _tags in answer.topics:
            for partition, error_code, _time, offset, _epoch, _more in rows:
                self._check(error_code, None, f"Describe on Topic {topic}")
                found[partition] = offset
        return found

    async def transactions_at(
        self, broker: int, topic: str, positions: Mapping[int, int]
    ) -> dict[int, tuple[int, bool]]:
        """By partition, where the transaction began inside of which the position lies, and whether it is still open;
        partitions whose position lies in no open or aborted transaction are left out. Raises `ClusterProblem`.
        """
        asked = [(topic, [(partition, at, _LEAST_BYTES) for partition, at in positions.items()])]
        answer = await self._client.send(broker, Question(FetchRequest_v4(-1, 0, 0, _FETCH_BYTES, _COMMITTED, asked)))
        found: dict[int, tuple[int, bool]] = {}
        for _topic, rows in answer.topics:
            for partition, error_code, _high, stable, aborted, _records in rows:
                self._check(error_code, None, f"Read on Topic {topic}")
                at = positions[partition]
                begun = [first for _producer, first in aborted or () if first < at]
                if 0 <= stable < at:
                    found[partition] = (stable, True)
                elif begun:
                    found[partition] = (min(begun), False)
        return found

    async def transactional_ids(self) -> dict[str, int]:
        """Those of all producers that the user may describe, with their producer ids. Raises `ClusterProblem`."""
        return {name: producer for name, producer, _state in await self.transactions()}

    async def transactions(self) -> list[tuple[str, int, str]]:
        """The transactional id, the producer id and the state of each that the user may describe: each broker tells its
        own. Raises `ClusterProblem`.
        """
        found: list[tuple[str, int, str]] = []
        for broker in self._client.cluster.brokers():
            answer = await self._ask_broker(broker.nodeId, ListTransactions([], [], {}))
            self._check(answer.error_code, None)
            found += [(name, producer, state) for name, producer, state, _tags in answer.transactions]
        return found

    async def producers(self, broker: int, partitions: Mapping[str, Sequence[int]]) -> list[Producing]:
        """Who wrote to these partitions, which `broker` leads, as long as it remembers them. Raises
        `ClusterProblem`.
        """
        named = [(topic, list(found), dict[int, bytes]()) for topic, found in partitions.items()]
        answer = await self._client.send(broker, Question(DescribeProducers(named, {})))
        found = []
        for topic, rows, _tags in answer.topics:
            for partition, error_code, message, active, _more in rows:
                self._check(error_code, message, f"Read on Topic {topic}", _UNHEARD_OF)
                # The epoch of a coordinator that ended one of its transactions, and the start of one that is open.
                found += [Producing(topic, partition, each[0], each[3], max(each[4], each[5]) >= 0) for each in active]
        return found

    async def commit_open(
        self, transactional_id: str, timeout_ms: int, choose: Callable[[], Awaitable[Sequence[tuple[str, int]]]]
    ) -> None:
        """Take the transactional id, which fences its holder and aborts what that was writing; then commit a
        transaction without records in the partitions that `choose` names: its marker also ends what a holder left open
        there. Raises `ClusterProblem`; what was begun is then aborted by whoever takes the id next, or by the timeout.
        """
        needed = f"Write on TransactionalId {transactional_id}"
        coordinator, patience_s = TransactionCoordinator(self._client, transactional_id), timeout_ms / 1000
        take = InitProducerIdRequest_v0(transactional_id, timeout_ms)
        taken = await coordinator.ask(take, code_of, time.monotonic() + patience_s)
        self._check(taken.error_code, None, needed)
        holder = transactional_id, taken.producer_id, taken.producer_epoch
        named: dict[str, list[int]] = {}
        for topic, partition in await choose():
            named.setdefault(topic, []).append(partition)
        if not named:
            return
        # The same holder may ask both again: they say what is to be, and an answer that was lost does not change it.
        give_up_s = time.monotonic() + patience_s - _BEFORE_TIME_OUT_S
        add = AddPartitionsToTxnRequest_v0(*holder, list(named.items()))
        added = await coordinator.ask(add, lambda told: codes_by_partition(told.errors), give_up_s)
        for topic, rows in added.errors:
            for _partition, error_code in rows:
                if error_code != NOT_TRIED:
                    self._check(error_code, None, f"Write on Topic {topic}", NOT_YET)
        ended = await coordinator.ask(EndTxnRequest_v0(*holder, True), code_of, give_up_s)
        self._check(ended.error_code, None, needed)


@asynccontextmanager
async def connected(
    access: ClientAccess, name: str, doing: str, deadline_s: float, request_s: float | None = None
) -> AsyncIterator[RawClient]:
    """A client with the client id `name`. The deadline covers everything that is asked, `request_s` each question, and
    half of the deadline a coordinator that loads; other libraries' errors become `ClusterProblem`.
    """
    client: Any = None
    begun_s = time.monotonic()
    try:
        async with asyncio.timeout(deadline_s):
            client = AIOKafkaClient(
                bootstrap_servers=access.bootstrap,
                client_id=name,
                request_timeout_ms=int((request_s or deadline_s) * 1000),
                security_protocol=access.protocol,
                ssl_context=make_ssl_context(access.tls) if access.tls is not None else None,
                sasl_mechanism=access.mechanism or "PLAIN",
                sasl_plain_username=access.username,
                sasl_plain_password=access.password,
                sasl_oauth_token_provider=TokenProvider(access.oauth) if access.oauth is not None else None,
            )
            await client.bootstrap()
            if not client.cluster.brokers():  # one that is fenced answers, and names none, not even itself
                raise ClusterProblem(f"Could not {doing}: the cluster names no broker")
            yield RawClient(client, doing, begun_s + deadline_s / 2)  # what follows needs time as well
    except IncompatibleBrokerVersion as error:
        hint = "`recoveryctl doctor features` lists what this cluster lacks, and what is done without it."
        message = f"Could not {doing}: the brokers do not answer {' '.join(map(str, error.args))} as it is asked here"
        raise ClusterProblem(message, hint, code=Code.FEATURE_MISSING, retriable=False) from error
    except KafkaError as error:
        refused = getattr(error, "errno", None) in NOT_AUTHORISED
        code = Code.NOT_AUTHORISED if refused else Code.CLUSTER_UNREACHABLE
        raise ClusterProblem(f"Could not {doing}: {error}", code=code, retriable=not refused) from error
    except (TimeoutError, OSError) as error:
        text = str(error) or f"no answer within {deadline_s:.0f} s"
        raise ClusterProblem(f"Could not {doing}: {text}") from error
    finally:
        if client is not None:
            await client.close()

"""Client quotas on the real broker: recoveryd's are set, enforced and swept; all others stay as they are. Kafka's own
tool is the judge.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.protocol.admin import DescribeClientQuotasRequest_v0
from aiokafka.protocol.api import RequestStruct
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from recoveryd.adapters.kafka.client_quotas import CONSUME, PRODUCE, KafkaClientQuotas
from recoveryd.adapters.kafka.raw_forms import AlterQuotas
from recoveryd.adapters.kafka.raw_requests import Change, Entity, connected
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.effects import SetQuota, SweepQuotas
from recoveryd.recovery.events import QuotaSet, QuotasSwept
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_jobs.contract import copy_client_id
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.topics import make_topics
from tests.e2e.processes import wait_for
from tests.integration import kafka_configs
from tests.patience import patient_s

pytestmark = pytest.mark.broker

EVERY = DescribeClientQuotasRequest_v0([], False)  # also those of users
HUGE = 1e12  # quotas of others must not slow the tests that share the broker


@pytest.fixture
def scope(unique: str) -> str:
    return unique.rstrip("-")


def entity(scope: str, recovery: str) -> str:
    return f"client-id '{copy_client_id(scope, recovery)}'"


def of_clients(bootstrap: str) -> dict[str, dict[str, float]]:
    """Quotas of client ids."""
    return kafka_configs.quotas(bootstrap, (kafka_configs.CLIENT_IDS,))


async def test_quotas_are_set_changed_and_removed_for_reading_and_writing_alike(bootstrap: str, scope: str) -> None:
    quotas = KafkaClientQuotas({"main": ClientAccess(bootstrap)}, scope)
    for rate in (1_500_000.0, 2_500_000.5):
        assert await quotas.set(SetQuota("r.1", "main", "main", rate)) == QuotaSet("r.1", rate)
        found = of_clients(bootstrap)[entity(scope, "r.1")]
        assert found == dict.fromkeys(("consumer_byte_rate", "producer_byte_rate"), math.ceil(rate))
    assert await quotas.set(SetQuota("r.1", "main", "main", None)) == QuotaSet("r.1", None)
    assert entity(scope, "r.1") not in of_clients(bootstrap)


async def test_between_clusters_the_source_limits_reading_and_the_target_writing_and_reading_back(
    bootstrap: str, scope: str, tmp_path: Path
) -> None:
    with Broker(tmp_path / "other") as other:
        accesses = {"main": ClientAccess(bootstrap), "other": ClientAccess(other.bootstrap)}
        quotas = KafkaClientQuotas(accesses, scope)
        await quotas.set(SetQuota("r1", "main", "other", 7e6))
        assert of_clients(bootstrap)[entity(scope, "r1")] == {"consumer_byte_rate": 7e6}
        assert of_clients(other.bootstrap) == {
            entity(scope, "r1"): {"producer_byte_rate": 7e6, "consumer_byte_rate": 7e6}
        }
        assert len((await ask(other.bootstrap, EVERY)).entries) == 1
        await quotas.set(SetQuota("r1", "main", "other", None))
        assert of_clients(other.bootstrap) == {}
        assert len((await ask(other.bootstrap, EVERY)).entries) == 0


async def test_a_sweep_takes_what_is_ours_and_over_and_nothing_else(bootstrap: str, scope: str) -> None:
    quotas = KafkaClientQuotas({"main": ClientAccess(bootstrap)}, scope)
    ours = ("going", "ended", "unknown.1")
    for recovery in ours:
        await quotas.set(SetQuota(recovery, "main", "main", 3e6))
    foreign: list[Entity] = [
        [("client-id", copy_client_id(f"{scope}x", "ended"))],  # another installation
        [("client-id", f"{scope}-someone")],
        [("client-id", None)],  # the default
        [("user", f"{scope}-bob"), ("client-id", copy_client_id(scope, "ended"))],
    ]
    try:
        await alter(bootstrap, foreign, (PRODUCE, HUGE, False))
        before = kafka_configs.quotas(bootstrap)
        assert sum(found == {PRODUCE: HUGE} for found in before.values()) >= len(foreign)
        swept = await quotas.sweep(SweepQuotas("main", ("going", "not-there")))
        assert swept == QuotasSwept("main", (("going", 3e6),), ("ended", "unknown.1"))
        gone = {entity(scope, "ended"), entity(scope, "unknown.1")}
        assert kafka_configs.quotas(bootstrap) == {name: v for name, v in before.items() if name not in gone}
    finally:
        await alter(bootstrap, foreign, (PRODUCE, 0.0, True))
        await quotas.sweep(SweepQuotas("main", ()))


async def ask(bootstrap: str, form: RequestStruct) -> Any:
    async with connected(ClientAccess(bootstrap), "test", "ask about quotas", 60.0) as client:
        return await client._ask_any(form)


async def alter(bootstrap: str, entities: Iterable[Entity], change: Change) -> None:
    """In one request, where the tool would be started for each of them."""
    answer = await ask(bootstrap, AlterQuotas([(entity, [change]) for entity in entities], False))
    assert [(code, message) for code, message, _ in answer.entries] == [(0, None)] * len(answer.entries)


async def test_the_broker_holds_a_client_that_ignores_its_lease(bootstrap: str, scope: str) -> None:
    topic = f"{scope}-held"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(admin, [NewTopic(topic, 1, 1)])
    quotas = KafkaClientQuotas({"main": ClientAccess(bootstrap)}, scope)
    await quotas.set(SetQuota("r1", "main", "main", 100_000.0))
    held_s: list[float] = []
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "client.id": copy_client_id(scope, "r1"),
        "linger.ms": 0,
        "throttle_cb": lambda event: held_s.append(event.throttle_time),
    })  # fmt: skip
    deadline_s = time.monotonic() + patient_s(60)
    try:
        while not any(held_s):
            assert time.monotonic() < deadline_s, "2 MB at 100 kB/s were never held"
            producer.produce(topic, b"x" * 200_000)
            await asyncio.to_thread(producer.flush, 20)
    finally:
        await quotas.set(SetQuota("r1", "main", "main", None))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker on which every user may do everything except read or change quotas."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(tmp_path_factory.mktemp("guarded"), overrides=settings) as broker:
        cluster = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
        allowed = (AclOperation.CLUSTER_ACTION, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CREATE)
        acls = [AclBinding(*cluster, operation, AclPermissionType.ALLOW) for operation in allowed]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_acls(acls).values():
            future.result(60)
        wait_for(lambda: len(acls_of_the_cluster(admin)) == len(acls), 30.0, lambda: "the ACLs are not in force")
        yield broker


def acls_of_the_cluster(admin: AdminClient) -> list[AclBinding]:
    """As the broker knows them: a moment after they were made."""
    every = (AclOperation.ANY, AclPermissionType.ANY)
    asked = AclBindingFilter(ResourceType.BROKER, None, ResourcePatternType.ANY, None, None, *every)
    try:
        found: list[AclBinding] = admin.describe_acls(asked).result(60)
    except KafkaException:  # it knows some of them, and not the right to ask
        return []
    return found


async def test_a_cluster_that_refuses_is_told_apart_from_one_that_is_away(guarded: Broker, scope: str) -> None:
    accesses = {"guarded": ClientAccess(guarded.bootstrap), "away": ClientAccess("127.0.0.1:1")}
    quotas = KafkaClientQuotas(accesses, scope)
    with pytest.raises(ClusterProblem) as refused:
        await quotas.set(SetQuota("r1", "guarded", "guarded", 1e6))
    assert (refused.value.code, refused.value.retriable) == (Code.NOT_AUTHORISED, False)
    swept = await quotas.sweep(SweepQuotas("guarded", ()))
    assert (swept.cluster, swept.kept, swept.removed, bool(swept.refused)) == ("guarded", (), (), True)
    for away in (quotas.set(SetQuota("r1", "away", "away", 1e6)), quotas.sweep(SweepQuotas("away", ()))):
        with pytest.raises(ClusterProblem) as silent:
            await asyncio.wait_for(away, 120)
        assert (silent.value.code, silent.value.retriable) == (Code.CLUSTER_UNREACHABLE, True)


@pytest.mark.parametrize("source", [
    "main",
    pytest.param("guarded", marks=pytest.mark.wide(
        "tests/integration/test_client_quotas.py::test_after_a_refusal_by_one_cluster_the_other_is_left_without_a_quota"
    )),
])  # fmt: skip
async def test_after_a_refusal_by_one_cluster_the_other_is_left_without_a_quota(
    bootstrap: str, guarded: Broker, scope: str, source: str
) -> None:
    accesses = {"main": ClientAccess(bootstrap), "guarded": ClientAccess(guarded.bootstrap)}
    quotas = KafkaClientQuotas(accesses, scope)
    (target,) = accesses.keys() - {source}
    before = [CONSUME] if source == "main" else [PRODUCE, CONSUME]
    for bytes_per_s in (2e6, None):
        await quotas._alter("main", "r1", before, 1e6)  # from when the other one did not refuse yet
        assert entity(scope, "r1") in of_clients(bootstrap)
        with pytest.raises(ClusterProblem):
            await quotas.set(SetQuota("r1", source, target, bytes_per_s))
        assert entity(scope, "r1") not in of_clients(bootstrap)

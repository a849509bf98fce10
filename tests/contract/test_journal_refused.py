"""A journal whose user may only write its events and dead letters, as was enough for earlier releases."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from recoveryd.adapters.kafka.permissions import lacking
from recoveryd.kernel.decision import Notice
from recoveryd.kernel.state import DaemonRecord
from recoveryd.ports import JournalBatch
from recoveryd.wire.acls import Role, own_acls
from recoveryd_sandbox.broker import Broker
from tests.contract.harness import KafkaHarness
from tests.contract.journals import commit, opened
from tests.patience import patient_s

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker on which topics without ACLs are everybody's."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(tmp_path_factory.mktemp("guarded"), overrides=settings) as broker:
        yield broker


async def test_a_daemon_that_may_not_read_its_events_leads_and_says_what_it_lacks(
    guarded: Broker, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = KafkaHarness(guarded.bootstrap, unique)
    before = own.journal()
    await opened(before)
    await commit(before, batch(1))
    await before.close()
    for topic in (own.names.events, own.names.dlq):
        await asyncio.to_thread(allow_to_write, guarded.bootstrap, topic)
    needs = [acl for acl in own_acls(own.names) if Role.DAEMON in acl.roles and acl.name in names_of(own)]
    await refused(own, needs)
    told = lacking(own.properties, needs, "none")
    assert told == [f"Read on Topic {own.names.events}", f"Read on Topic {own.names.dlq}"], "what `doctor` prints"

    after = own.journal()
    await opened(after)
    await commit(after, batch(2))
    await opened(after)
    await after.close()
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.split(":")[0] for line in lines] == [f"The user lacks Read on Topic {own.names.events}"], "once"


def batch(number: int) -> JournalBatch:
    return JournalBatch(notices=[Notice("n", "r1", {"n": number})], daemon=DaemonRecord(number))


def names_of(own: KafkaHarness) -> set[str]:
    return {own.names.status, own.names.events, own.names.directives, own.names.dlq}


def allow_to_write(bootstrap: str, topic: str) -> None:
    place = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    operations = (AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
    acls = [AclBinding(*place, operation, AclPermissionType.ALLOW) for operation in operations]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_acls(acls).values():
        future.result(60)


async def refused(own: KafkaHarness, needs: list) -> None:
    """ACLs are known a moment after they were made."""
    give_up_s = time.monotonic() + patient_s(30)
    while len(await asyncio.to_thread(lacking, own.properties, needs, "none")) < 2:
        assert time.monotonic() < give_up_s, "Read is not refused"
        await asyncio.sleep(0.05)

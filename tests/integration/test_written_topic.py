"""What a plan is made of does not depend on records that come while it is asked for."""

import time
from collections.abc import Iterable

import pytest

from recoveryd.adapters.kafka.client import make_admin
from recoveryd.adapters.kafka.facts import read_partitions
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.recovery.plan_facts import PartitionFacts
from recoveryd.recovery.spec import Earliest, Latest
from recoveryd_sandbox.live import LiveProducer
from tests.patience import patient_s

pytestmark = pytest.mark.broker

LOOKS = 10


def written(look: Iterable[PartitionFacts]) -> int:
    return sum(partition.high_watermark for partition in look)


def test_live_traffic_between_two_questions_is_no_open_transaction(bootstrap: str, unique: str) -> None:
    properties, topic = {"bootstrap.servers": bootstrap}, f"{unique}-live"
    with LiveProducer(bootstrap, topic, records_per_s=2_000.0, partitions=2):
        admin = make_admin(properties)
        shape = describe(admin, [topic], patient_s(10))[topic]
        assert shape is not None
        found, give_up_s = list[tuple[PartitionFacts, ...]](), time.monotonic() + patient_s(60)
        while len(found) < LOOKS or written(found[-1]) == written(found[-LOOKS]):  # the producer begins when it can
            assert time.monotonic() < give_up_s, "no records came"
            found.append(read_partitions(admin, shape, (Earliest(), Latest()), 0, patient_s(10)))
    assert [
        (p.last_stable, p.high_watermark) for look in found for p in look if p.last_stable != p.high_watermark
    ] == []

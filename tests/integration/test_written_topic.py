"""What a plan is made of does not depend on records that come while it is asked for."""

import pytest

from recoveryd.adapters.kafka.client import make_admin
from recoveryd.adapters.kafka.facts import read_partitions
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.recovery.spec import Earliest, Latest
from recoveryd_sandbox.live import LiveProducer
from tests.patience import patient_s

pytestmark = pytest.mark.broker

LOOKS = 10


def test_live_traffic_between_two_questions_is_no_open_transaction(bootstrap: str, unique: str) -> None:
    properties, topic = {"bootstrap.servers": bootstrap}, f"{unique}-live"
    with LiveProducer(bootstrap, topic, records_per_s=2_000.0, partitions=2):
        admin = make_admin(properties)
        shape = describe(admin, [topic], patient_s(10))[topic]
        assert shape is not None
        found = [read_partitions(admin, shape, (Earliest(), Latest()), 0, patient_s(10)) for _ in range(LOOKS)]
    ends = [sum(p.high_watermark for p in look) for look in found]
    assert ends[0] < ends[-1], "records came meanwhile"
    assert [
        (p.last_stable, p.high_watermark) for look in found for p in look if p.last_stable != p.high_watermark
    ] == []

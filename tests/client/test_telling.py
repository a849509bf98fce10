"""The acknowledgement is a signal that the daemon takes and that fits its schema."""

import json
from datetime import UTC, datetime

from recoveryd.client.heeding import DRAINING, PAUSED, HoldAck
from recoveryd.client.telling import make_record
from recoveryd.holds.signals import HeldPosition, HoldSignal, Told
from tests.wire.json_schema import is_valid, load
from tests.wire.records import decode

AT = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


def test_what_a_consumer_says_is_what_the_daemon_hears() -> None:
    ack = HoldAck("h1", "m1", PAUSED, (("a", 0, 5), ("a", 1, None)))
    event = json.loads(make_record(ack, "reports", "reports-1", "id-1", AT))
    positions = (HeldPosition("a", 0, 5), HeldPosition("a", 1, None))
    assert decode(event, b"h1") == HoldSignal("h1", "reports", "m1", Told.PAUSED, "reports-1", positions)
    assert is_valid(event, load("signal.hold.v1.json"))


def test_without_a_client_id_and_positions_too() -> None:
    event = json.loads(make_record(HoldAck("h1", "m1", DRAINING), "reports", "", "id-1", AT))
    assert decode(event, b"h1") == HoldSignal("h1", "reports", "m1", Told.DRAINING)
    assert is_valid(event, load("signal.hold.v1.json"))

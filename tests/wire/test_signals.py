"""Signals: which ones are accepted, and that a wrong one is refused as a whole, naming the field."""

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import SignalRefused
from recoveryd.live.signals import HealthSignal, LagSignal, SignalledPartition
from tests.wire.records import NOW_MS, bent, decode
from tools.examples import SIGNALS

LAG, HEALTH = SIGNALS["lag"], SIGNALS["health"]
SAMPLE = LAG["data"]["partitions"][0]


def test_a_lag_signal() -> None:
    sampled_at_ms = NOW_MS - 2_000
    assert decode(LAG) == LagSignal(
        "main",
        "flights-reports",
        "flights",
        (SignalledPartition(0, 83990, 84000, sampled_at_ms), SignalledPartition(1, None, 84000, sampled_at_ms)),
    )


def test_a_health_signal() -> None:
    assert decode(HEALTH) == HealthSignal("main", "produce_latency_p99", 0.21, "s", "degraded", NOW_MS - 5_000)


def test_a_signal_needs_no_subject_and_any_key_is_fine() -> None:
    assert isinstance(decode(LAG, b"flights-reports"), LagSignal)


@pytest.mark.parametrize("value", [0, 5, 0.5, None])
def test_a_health_value_is_a_number_or_not_known(value: float | None) -> None:
    assert decode(bent(HEALTH, "data.value", value)) == HealthSignal(
        "main", "produce_latency_p99", value, "s", "degraded", NOW_MS - 5_000
    )


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        (bent(LAG, "data"), Code.MISSING_FIELD, "data is missing."),
        (bent(LAG, "data.group"), Code.MISSING_FIELD, "data.group is required."),
        (bent(LAG, "data.groop", "x"), Code.UNKNOWN_FIELD, "data.groop is not a field of lag."),
        (bent(LAG, "data.partitions", []), Code.INVALID_VALUE, "data.partitions"),
        (bent(LAG, "data.partitions", [SAMPLE, SAMPLE]), Code.INVALID_VALUE, "names a partition twice"),
        (bent(LAG, "data.partitions", [SAMPLE | {"committed": -1}]), Code.INVALID_VALUE, "data.partitions[0].committed"),
        (bent(LAG, "data.partitions", [SAMPLE | {"end": 1.5}]), Code.INVALID_VALUE, "data.partitions[0].end"),
        (bent(LAG, "data.partitions", [SAMPLE | {"partition": True}]), Code.INVALID_VALUE, "data.partitions[0].partition"),
        (bent(LAG, "data.partitions", [SAMPLE | {"lag": 1}]), Code.UNKNOWN_FIELD, "data.partitions[0].lag"),
        (bent(LAG, "data.partitions", [SAMPLE | {"sampled_at": "2026-11-21T06:05:01Z"}]), Code.INVALID_VALUE, "more than 5 minutes in the future"),
        (bent(LAG, "data.partitions", [SAMPLE | {"sampled_at": "2026-11-21T06:00:00"}]), Code.ZONE_MISSING, "data.partitions[0].sampled_at"),
        (bent(LAG, "data.partitions", [SAMPLE | {"sampled_at": 5}]), Code.INVALID_VALUE, "data.partitions[0].sampled_at is 5"),
        (bent(HEALTH, "data.value", -1), Code.INVALID_VALUE, "data.value"),
        (bent(HEALTH, "data.value", True), Code.INVALID_VALUE, "data.value"),
        (bent(HEALTH, "data.value", "0.2"), Code.INVALID_VALUE, "data.value"),
        (bent(HEALTH, "data.status", "bad"), Code.INVALID_VALUE, "is not one of ok, degraded, critical, unknown"),
        (bent(HEALTH, "data.status"), Code.MISSING_FIELD, "data.status is required."),
        (bent(HEALTH, "data.sampled_at", "2026-11-21T07:00:00Z"), Code.INVALID_VALUE, "more than 5 minutes"),
        (bent(HEALTH, "type", "io.recoveryd.signal.helth.v1"), Code.UNKNOWN_TYPE, "io.recoveryd.signal.helth.v1"),
        (bent(HEALTH, "specversion", "2.0"), Code.MISSING_ATTRIBUTE, "specversion"),
        (bent(HEALTH, "expirytime", "2026-11-21T05:59:59Z"), Code.EXPIRED, "came after its expirytime"),
    ],
)  # fmt: skip
def test_a_signal_that_is_not_valid_is_refused(event: dict[str, object], code: Code, message: str) -> None:
    refused = decode(event)
    assert isinstance(refused, SignalRefused)
    assert (refused.offset, refused.code) == (7, code.value)
    assert message in refused.message
    assert refused.hint


def test_a_sample_may_be_five_minutes_ahead_of_the_brokers_clock() -> None:
    assert isinstance(decode(bent(HEALTH, "data.sampled_at", "2026-11-21T06:05:00Z")), HealthSignal)


def test_a_signal_of_very_many_partitions_is_bounded() -> None:
    samples = [{"partition": i, "sampled_at": "2026-11-21T06:00:00Z"} for i in range(10_000)]
    taken = decode(bent(LAG, "data.partitions", samples))
    assert isinstance(taken, LagSignal)
    assert len(taken.partitions) == 10_000

"""Token bucket, lease and meter on a virtual clock."""

import math
from dataclasses import replace

import pytest

from recoveryd_jobs.contract import Directive
from recoveryd_jobs.pacing import (
    BURST_S,
    Lease,
    LeaseRates,
    Pacer,
    RateMeter,
    Standstill,
    TokenBucket,
    fetch_ahead_bytes,
    fetch_sizes,
)

RUN = Directive("r", 1, 1, "run", 30_000)
MB = 1_000_000.0


def spend(pacer: Pacer, seconds: float, start_s: float, record_bytes: int) -> list[tuple[float, int]]:
    """(time, bytes) of the slices of a lane that works as fast as it may; a slice takes 1 ms."""
    taken, now_s = [], start_s
    while now_s < start_s + seconds:
        wait_s = pacer.wait_s(now_s)
        if wait_s > 0:
            now_s += min(wait_s, 0.1)
            continue
        records = pacer.slice_records(record_bytes) or 10_000
        pacer.took(records, records * record_bytes, now_s)
        taken.append((now_s, records * record_bytes))
        now_s += 0.001
    return taken


def most_in(taken: list[tuple[float, int]], window_s: float) -> float:
    return max(sum(size for at, size in taken if begin <= at < begin + window_s) for begin, _ in taken)


@pytest.mark.parametrize("rate", [64 * 1024.0, MB, 50 * MB])
def test_any_ten_seconds_stay_within_a_tenth_of_the_rate(rate: float) -> None:
    pacer = Pacer(0.0)
    pacer.set_rates(LeaseRates(rate, None), 0.0)
    taken = spend(pacer, 40.0, 0.0, 350)
    assert most_in(taken, 10.0) <= 10.0 * rate * 1.1
    assert sum(size for _, size in taken) >= 40.0 * rate * 0.9


def test_a_limit_on_records_holds_too() -> None:
    pacer = Pacer(0.0)
    pacer.set_rates(LeaseRates(None, 1000.0), 0.0)
    taken = spend(pacer, 20.0, 0.0, 100)
    assert 18_000 <= sum(size for _, size in taken) / 100 <= 21_000


def test_a_cut_holds_at_once() -> None:
    pacer = Pacer(0.0)
    pacer.set_rates(LeaseRates(50 * MB, None), 0.0)
    spend(pacer, 10.0, 0.0, 350)
    pacer.set_rates(LeaseRates(MB, None), 10.0)
    taken = spend(pacer, 10.0, 10.0, 350)
    assert most_in(taken, 1.0) <= MB * (1.1 + BURST_S)
    assert sum(size for _, size in taken) <= 10 * MB * 1.1


def test_a_raise_is_used_at_once() -> None:
    pacer = Pacer(0.0)
    pacer.set_rates(LeaseRates(MB, None), 0.0)
    spend(pacer, 5.0, 0.0, 350)
    pacer.set_rates(LeaseRates(20 * MB, None), 5.0)
    assert sum(size for _, size in spend(pacer, 5.0, 5.0, 350)) >= 5 * 20 * MB * 0.9


def test_a_lifted_limit_leaves_no_debt() -> None:
    bucket = TokenBucket(0.0)
    bucket.set_rate(10.0, 0.0)
    bucket.take(1000, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(100.0, abs=0.1)
    bucket.set_rate(None, 1.0)
    assert bucket.wait_s(1.0) == 0.0
    bucket.set_rate(10.0, 2.0)
    assert bucket.wait_s(2.1) == 0.0


def test_a_lower_rate_makes_no_wait_longer() -> None:
    """One slice of records that were larger than thought may be a debt of many seconds, and a cut must not make minutes
    of them.
    """
    bucket = TokenBucket(0.0)
    bucket.set_rate(MB, 0.0)
    bucket.take(20 * MB, 0.0)
    for rate in (64 * 1024.0, 0.0, 32 * 1024.0):
        bucket.set_rate(rate, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(20.0, abs=0.1)


def test_a_higher_rate_forgives_no_debt() -> None:
    bucket = TokenBucket(0.0)
    bucket.set_rate(MB, 0.0)
    bucket.take(20 * MB, 0.0)
    bucket.set_rate(0.0, 0.0)
    bucket.set_rate(2 * MB, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(10.0, abs=0.1)


def test_a_rate_that_dips_forgives_no_debt() -> None:
    """Shares and leases change from one directive to the next."""
    bucket = TokenBucket(0.0)
    bucket.set_rate(MB, 0.0)
    bucket.take(20 * MB, 0.0)
    for rate in (MB / 2, MB, MB / 3, MB):
        bucket.set_rate(rate, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(20.0, abs=0.1)
    bucket.set_rate(MB / 2, 5.0)
    assert bucket.wait_s(10.0) == pytest.approx(10.0, abs=0.1)
    assert bucket.wait_s(21.0) == 0.0
    bucket.take(MB, 21.0)
    assert bucket.wait_s(21.0) > 1.2  # at the rate of now


def test_rate_zero_waits_for_ever() -> None:
    bucket = TokenBucket(0.0)
    bucket.set_rate(0.0, 0.0)
    assert bucket.wait_s(5.0) == math.inf


def test_an_unlimited_lane_is_not_slowed() -> None:
    pacer = Pacer(0.0)
    pacer.took(10**9, 10**12, 0.0)
    assert (pacer.wait_s(0.0), pacer.slice_records(350)) == (0.0, None)


def test_lanes_share_the_rate_as_the_directive_says() -> None:
    directive = replace(RUN, max_bytes_per_s=10 * MB, max_records_per_s=100.0, shares={0: 0.75})
    assert LeaseRates(7.5 * MB, 75.0) == Lease(directive, 0, 4, 0.0).rates(1.0, 0.0)
    assert LeaseRates(2.5 * MB, 25.0) == Lease(directive, 1, 4, 0.0).rates(1.0, 0.0)  # not named: a quarter


def test_silence_shrinks_the_rate_by_a_fifth_each_second_down_to_the_floor_then_pauses() -> None:
    lease = Lease(replace(RUN, max_bytes_per_s=10 * MB, floor_bytes_per_s=1 * MB), 0, 1, 100.0)
    assert LeaseRates(10 * MB, None) == lease.rates(130.0, 9 * MB)
    assert lease.rates(131.0, 9 * MB).bytes_per_s == pytest.approx(8 * MB)
    assert lease.rates(132.0, 9 * MB).bytes_per_s == pytest.approx(6.4 * MB)
    assert LeaseRates(1 * MB, None) == lease.rates(159.0, 1 * MB)
    assert LeaseRates(1 * MB, None, leaseless=True) == lease.rates(160.1, 1 * MB)


def test_an_unlimited_lane_decays_from_what_it_reached() -> None:
    lease = Lease(replace(RUN, floor_bytes_per_s=1000.0), 0, 1, 0.0)
    assert lease.rates(30.5, 40 * MB).bytes_per_s == pytest.approx(40 * MB * 0.8**0.5)
    assert lease.rates(33.0, 1 * MB).bytes_per_s == pytest.approx(40 * MB * 0.8**3)  # not from what it does by now


def test_a_limit_below_the_floor_is_never_raised_by_silence() -> None:
    lease = Lease(replace(RUN, max_bytes_per_s=500.0, floor_bytes_per_s=1000.0), 0, 1, 0.0)
    assert LeaseRates(500.0, None) == lease.rates(50.0, 500.0)


def test_the_meter_shows_the_last_few_seconds() -> None:
    meter = RateMeter(window_s=4.0)
    assert meter.per_s() == (0.0, 0.0)
    for second in range(10):
        meter.add(second * 100, second * 1000, float(second))
    assert meter.per_s() == (100.0, 1000.0)
    for second in range(10, 20):
        meter.add(900, 9000, float(second))
    assert meter.per_s() == (0.0, 0.0)


def test_a_lane_stands_still_for_its_rate_only_while_it_keeps_saying_so() -> None:
    standstill = Standstill()
    assert not standstill.is_held_back(0.0)
    standstill.note(0.5, 10.0)  # soon over
    assert not standstill.is_held_back(10.0)
    standstill.note(math.inf, 20.0)
    assert [standstill.is_held_back(now_s) for now_s in (20.0, 21.0, 22.0, 600.0)] == [True, True, False, False]


def test_a_limited_lane_fetches_two_seconds_ahead_and_no_more() -> None:
    most = 64 * 1024 * 1024
    assert fetch_ahead_bytes(LeaseRates(None, None), 350.0, most) == most
    assert fetch_ahead_bytes(LeaseRates(5 * MB, None), 350.0, most) == 10 * MB
    assert fetch_ahead_bytes(LeaseRates(5 * MB, 10_000.0), 350.0, most) == 7 * MB
    assert fetch_ahead_bytes(LeaseRates(1000.0, None), 350.0, most) == 1024 * 1024
    assert fetch_ahead_bytes(LeaseRates(500 * MB, None), 350.0, most) == most


@pytest.mark.parametrize(
    ("ahead", "partitions", "answer", "each"),
    [
        (64, 1, 16, 16),
        (64, 2, 16, 8),
        (64, 4, 16, 4),
        (64, 8, 16, 2),
        (64, 100, 16, 2),
        (1, 1, 1, 1),
        (1, 4, 1, 0.25),
        (0.5, 1, 1, 1),
    ],
)
def test_an_answer_of_a_broker_is_no_larger_for_many_partitions(
    ahead: float, partitions: int, answer: float, each: float
) -> None:
    mebi = 1024 * 1024
    assert fetch_sizes(int(ahead * mebi), partitions) == (answer * mebi, each * mebi)

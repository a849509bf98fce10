"""How fast a lane may go right now: the leased rate, the token bucket that keeps to it, and the meter of the rate that
was reached.

Pure: monotonic seconds are passed in as `now_s`, nothing here reads a clock or sleeps. A rate is a lease. When no
directive came for longer than the lease, the rate shrinks by a fifth each second down to the floor, and after one more
lease time the lane has to pause. Any newer directive restores it.
"""

import math
from collections import deque
from dataclasses import dataclass

from recoveryd_jobs.contract import Directive

DECAY_PER_S = 0.8
BURST_S = 0.4  # how much may be caught up after a stall: keeps any 10 s within 4 % of the rate
AHEAD_S = 2.0
AHEAD_MIN_BYTES = 1024 * 1024
ANSWER_BYTES = 16 * 1024 * 1024
SHARED_BY_MOST = 8
PACKED = 4  # records are about so much larger than the batches that they come in, at most
HELD_BACK_S = 1.0  # a shorter wait for the next record is no standstill
SLICE_S = 0.1  # a limited lane reads and writes in slices of about this much time at its rate


@dataclass(frozen=True, slots=True)
class LeaseRates:
    """What one lane may do now; None = unlimited. `leaseless`: the lease is over, so commit what is open and wait."""

    bytes_per_s: float | None
    records_per_s: float | None
    leaseless: bool = False

    @property
    def is_limited(self) -> bool:
        return self.bytes_per_s is not None or self.records_per_s is not None


def fetch_ahead_bytes(rates: LeaseRates, record_bytes: float, most: int) -> int:
    """How many bytes a lane may fetch ahead: with a rate limit much less than `most`, so that it does not begin by
    fetching 64 MB at full speed.
    """
    wanted = float(most)
    if rates.bytes_per_s is not None:
        wanted = min(wanted, rates.bytes_per_s * AHEAD_S)
    if rates.records_per_s is not None:
        wanted = min(wanted, rates.records_per_s * record_bytes * AHEAD_S)
    return max(AHEAD_MIN_BYTES, int(wanted))


def fetch_sizes(ahead_bytes: int, partitions: int) -> tuple[int, int]:
    """How many bytes one answer of a broker may hold, and of each partition in it. A client asks each broker for the
    next one as long as less than `ahead_bytes` wait, so an answer comes on top of them.

    Up to SHARED_BY_MOST partitions have their part in each answer; more of them have their turns.
    """
    answer_bytes = max(AHEAD_MIN_BYTES, min(ahead_bytes, ANSWER_BYTES))
    return answer_bytes, answer_bytes // max(1, min(partitions, SHARED_BY_MOST))


def turn_bytes(ahead_bytes: int, partitions: int) -> int:
    """How many bytes of other partitions may be read before each had its turn: all that may wait, and a full answer
    for each of the others, as when their batches are too large to share one.
    """
    answer_bytes, _ = fetch_sizes(ahead_bytes, partitions)
    return 2 * ahead_bytes + max(0, partitions - 1) * answer_bytes * PACKED


class Lease:
    """The newest directive as one lane sees it. `received_s`: when this lane first saw its sequence."""

    def __init__(self, directive: Directive, lane: int, lanes: int, received_s: float) -> None:
        self._directive = directive
        self._share = directive.shares.get(lane, 1.0 / max(lanes, 1))
        self._ends_s = received_s + directive.lease_ttl_ms / 1000.0
        self._silent_s = self._ends_s + directive.lease_ttl_ms / 1000.0
        self._reached_bytes_per_s: float | None = None

    def rates(self, now_s: float, reached_bytes_per_s: float) -> LeaseRates:
        """`reached_bytes_per_s` is the lane's recent rate: from there the rate of an unlimited lane decays."""
        bytes_per_s = _part(self._directive.max_bytes_per_s, self._share)
        records_per_s = _part(self._directive.max_records_per_s, self._share)
        overdue_s = now_s - self._ends_s
        if overdue_s <= 0:
            return LeaseRates(bytes_per_s, records_per_s)
        if self._reached_bytes_per_s is None:
            self._reached_bytes_per_s = reached_bytes_per_s
        factor = DECAY_PER_S**overdue_s
        floor = self._directive.floor_bytes_per_s * self._share
        began = bytes_per_s if bytes_per_s is not None else self._reached_bytes_per_s
        slow = max(began * factor, min(floor, began) if bytes_per_s is not None else floor)
        return LeaseRates(slow, records_per_s, leaseless=now_s > self._silent_s)


def _part(rate: float | None, share: float) -> float | None:
    return None if rate is None else rate * share


class TokenBucket:
    """Amounts are taken afterwards and may leave a debt, because a record's size is known only once it was read."""

    def __init__(self, now_s: float) -> None:
        self._rate: float | None = None
        self._pays = 0.0  # the rate at which the present debt was made
        self._tokens = 0.0
        self._at_s = now_s

    def set_rate(self, rate: float | None, now_s: float) -> None:
        """A new rate holds at once: savings are cut to what it allows. A debt goes on being paid at least as quickly as
        when it was made, so that no wait grows by a lower rate; and it stays what it was for a higher one that follows.
        """
        if rate == self._rate:
            return
        self._fill(now_s)
        if self._rate is None:
            self._tokens = 0.0
        self._rate = rate
        if rate is not None:
            self._tokens = min(self._tokens, rate * BURST_S)

    def take(self, amount: float, now_s: float) -> None:
        self._fill(now_s)
        if self._rate is not None:
            self._pays = max(self._pays if self._tokens < 0 else 0.0, self._rate)
            self._tokens -= amount

    def wait_s(self, now_s: float) -> float:
        """Seconds until the debt is paid; 0 = no debt; infinite at rate 0."""
        self._fill(now_s)
        if self._rate is None or self._tokens > 0:
            return 0.0
        return -self._tokens / self._debt_pace(self._rate) + 0.001 if self._rate > 0 else math.inf

    def _debt_pace(self, rate: float) -> float:
        return max(rate, self._pays)

    def _fill(self, now_s: float) -> None:
        left_s, self._at_s = now_s - self._at_s, now_s
        if self._rate is None:
            return
        if self._tokens < 0 < self._rate:
            pace = self._debt_pace(self._rate)
            paying_s = min(left_s, -self._tokens / pace)
            self._tokens += paying_s * pace
            left_s -= paying_s
        self._tokens = min(self._tokens + left_s * self._rate, self._rate * BURST_S)


class Pacer:
    """The token buckets of a lane, for bytes and for records, and the size of the next slice."""

    def __init__(self, now_s: float) -> None:
        self._bytes = TokenBucket(now_s)
        self._records = TokenBucket(now_s)
        self._rates = LeaseRates(None, None)

    def set_rates(self, rates: LeaseRates, now_s: float) -> None:
        self._rates = rates
        self._bytes.set_rate(rates.bytes_per_s, now_s)
        self._records.set_rate(rates.records_per_s, now_s)

    def took(self, records: int, size: int, now_s: float) -> None:
        self._bytes.take(size, now_s)
        self._records.take(records, now_s)

    def wait_s(self, now_s: float) -> float:
        if not self._rates.is_limited:
            return 0.0
        return max(self._bytes.wait_s(now_s), self._records.wait_s(now_s))

    def slice_records(self, record_bytes: float) -> int | None:
        """How many records of about `record_bytes` the next slice may hold, None = the rate sets no limit."""
        if not self._rates.is_limited:
            return None
        found = math.inf
        if self._rates.bytes_per_s is not None:
            found = self._rates.bytes_per_s * SLICE_S / max(record_bytes, 1.0)
        if self._rates.records_per_s is not None:
            found = min(found, self._rates.records_per_s * SLICE_S)
        return max(1, int(found))


class Standstill:
    """Whether a lane waits for nothing but its rate, as its thread last said. Not believed for long, so that a thread
    that hangs later does not seem to wait for its rate.
    """

    def __init__(self) -> None:
        self._seen_s = -math.inf

    def note(self, wait_s: float, now_s: float) -> None:
        """`wait_s`: how long its rate keeps it from the next record."""
        if wait_s >= HELD_BACK_S:
            self._seen_s = now_s

    def is_held_back(self, now_s: float) -> bool:
        return now_s - self._seen_s < 2 * HELD_BACK_S


class RateMeter:
    """Records and bytes per second over the last few seconds, computed from running totals."""

    def __init__(self, window_s: float = 4.0) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, int, int]] = deque(maxlen=64)

    def add(self, records_total: int, bytes_total: int, now_s: float) -> None:
        self._seen.append((now_s, records_total, bytes_total))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= self._window_s:
            self._seen.popleft()

    def per_s(self) -> tuple[float, float]:
        """(records/s, bytes/s); zero until two samples are known."""
        if len(self._seen) < 2:
            return 0.0, 0.0
        (from_s, records_from, bytes_from), (to_s, records_to, bytes_to) = self._seen[0], self._seen[-1]
        elapsed_s = max(to_s - from_s, 0.001)
        return max(0.0, (records_to - records_from) / elapsed_s), max(0.0, (bytes_to - bytes_from) / elapsed_s)

"""Lanes and driver to daemon: `LaneHeartbeat` and `DriverHeartbeat` records, and why one of them cannot go on."""

import math
from dataclasses import dataclass, field

from recoveryd_jobs.contract.coding import VERSION, ContractError, build, load

REPORT_BYTES_MAX = 8 * 1024 * 1024  # what the progress topic takes

# Why a lane or the driver cannot go on; the daemon decides whether another attempt makes sense.
ERROR_CODES = (
    "data_lost",
    "topic_recreated",
    "record_too_large",
    # The target, or the Kafka client, cannot take a record as it is (for instance its timestamp); the message names the
    # record.
    "record_refused",
    "source_unavailable",
    "target_unavailable",
    "ledger_broken",
    "stop_blocked",
    "not_authorised",  # at the source, or for the directives
    "target_not_authorised",  # at the target or its receipts
    "fenced",
    "internal",
    "slots_missing",  # the application has fewer task slots than lanes that must run at once
    "executors_unfit",  # the executors' Python cannot run our tasks
    "spark_unsecured",  # secrets would travel unprotected between driver and executors
)


@dataclass(frozen=True, slots=True)
class LanePosition:
    """`position` is durable: the end of the last receipt. The counts are of the whole recovery, over all attempts.

    `event_time_ms` is the timestamp of the last committed record; None while this attempt has committed none.
    """

    partition: int
    position: int
    stop: int | None
    state: str  # waiting | copying | paused | blocked | done
    copied: int = 0
    filtered: int = 0
    skipped: int = 0
    lost: int = 0
    bytes: int = 0
    event_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LaneHeartbeat:
    """State of one lane, sent once a second. `directive_sequence`: the newest directive it acts on. Rates are over the
    last few seconds.

    In `phase` verify, `lane` is the number of a task of the proof, from 0, and `positions` is empty. Such a task counts
    what it reads on both sides, and obeys `verify`, `pause`, `stop` and `exit`; after `stop` it is `done` and the
    attempt has no verdict. Its progress is `verified_offsets` of `offsets_to_verify`, both sides together. It makes
    progress as well where it reads records a second time, which adds to `verified_records` alone, or reads receipts or
    compares on disk, which adds to `verified_steps` alone.

    `throttled`: everything it took is committed, and it waits only because its rate allows no further record yet.
    `fetching`: its client has just fetched further, also where that holds nothing that a reader sees.
    """

    recovery: str
    attempt: int
    lane: int
    directive_sequence: int
    state: str  # starting | copying | verifying | pausing | paused | draining | done | blocked | leaseless
    chunk_open: bool
    records_per_s: float
    bytes_per_s: float
    positions: tuple[LanePosition, ...]
    why: str = ""
    sent_ms: int = 0
    phase: str = "copy"  # copy | verify
    verified_records: int = 0
    verified_bytes: int = 0
    verified_offsets: int = 0
    offsets_to_verify: int = 0
    verified_steps: int = 0
    failed_chunks: int = 0  # how often this attempt began a chunk again from the ledger
    ledger_from: int = 0  # offset of the newest head of this lane on the receipts topic, 0 = none
    throttled: bool = False
    fetching: bool = False
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the target differs from what it must be, or where a receipt differs from what was read again
    (`kind` ledger).

    An offset None = the record does not exist on that side. `count`: records in a row from there that differ in the
    same way.
    """

    kind: str  # missing | extra | altered | reordered | ledger
    source_partition: int | None = None
    source_offset: int | None = None
    target_partition: int | None = None
    target_offset: int | None = None
    count: int = 1
    message: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict of the proof. `extra_records` are in the target and belong to no part of the copy.
    `records_by_receipts`: how many of the source records only receipts prove.

    `unkeyed_*`: records without a key, seen where only the last value of each key is compared; no other count includes
    them. The other fields count what was read, so `target_records` includes the extra ones.

    `target_ends`: by partition, up to where the target was read. What lies behind came later.

    `uncopied`: by partition that the source got too late for a copy of all its partitions, how many offsets it holds.
    """

    result: str  # match | mismatch | skipped
    source_records: int
    target_records: int
    digest: str
    differences: tuple[Difference, ...] = ()  # at most 100
    why: str = ""
    scope: str = ""  # source | mixed | receipts, "" when skipped
    extra_records: int = 0
    records_by_receipts: int = 0
    unkeyed_source_records: int = 0
    unkeyed_target_records: int = 0
    target_ends: dict[int, int] = field(default_factory=dict, hash=False)  # a dict has no hash
    uncopied: dict[int, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class DriverHeartbeat:
    """State of the driver, sent once a second and at each change of phase. `drained` = every lane's task returned
    (done, stopped or capped).

    A verification goes from `starting` to `verifying` directly. After a `stop` while verifying the phase is `drained`
    again.

    `error_code` is one of ERROR_CODES when the phase is failed.
    """

    recovery: str
    attempt: int
    phase: str  # starting | lanes | drained | verifying | verified | failed | exiting
    directive_sequence: int = 0
    verification: Verification | None = None
    error_code: str = ""
    error_message: str = ""
    host: str = ""
    pid: int = 0
    sent_ms: int = 0
    version: int = VERSION


def decode_progress(raw: bytes | str) -> "LaneHeartbeat | DriverHeartbeat":
    """Read one record of the progress topic. It is a lane's if it has a field `lane`, else the driver's. Raises
    ContractError, also for numbers that no lane or driver has.
    """
    value = load(raw, "progress")
    if isinstance(value, dict) and "lane" not in value:
        return _checked(build(DriverHeartbeat, value))
    return _checked(build(LaneHeartbeat, value))


def _checked(told: "LaneHeartbeat | DriverHeartbeat") -> "LaneHeartbeat | DriverHeartbeat":
    counts: tuple[int, ...] = (told.attempt, told.directive_sequence)
    if isinstance(told, LaneHeartbeat):
        counts = (*counts, told.lane, told.failed_chunks, told.ledger_from)
        if not (math.isfinite(told.records_per_s) and math.isfinite(told.bytes_per_s)):
            raise ContractError("LaneHeartbeat: a rate is not finite")
        if any(map(_is_impossible, told.positions)):
            raise ContractError("LaneHeartbeat.positions: a number is negative")
    if min(counts) < 0:
        raise ContractError(f"{type(told).__name__}: a number is negative")
    return told


def _is_impossible(p: LanePosition) -> bool:
    return min(p.partition, p.position, p.stop or 0, p.copied, p.filtered, p.skipped, p.lost, p.bytes) < 0

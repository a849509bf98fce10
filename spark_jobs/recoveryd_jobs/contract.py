"""What the daemon and its Spark jobs say to each other. Standard library only: the one file of the jobs that the daemon imports.

Daemon to driver: a `JobSpec` as a JSON file. Daemon to lanes: `Directive` records. Lanes and driver to daemon: `Heartbeat` and `DriverReport` records.
Lanes to everybody, in the data's transaction: `Receipt` records. Every record carries a version and is decoded strictly, except that unknown fields are
ignored so that a newer writer can add some. All times are milliseconds, all ranges half-open.
"""

import dataclasses
import functools
import json
import types
import typing
import zlib
from dataclasses import dataclass

VERSION = 1
DIGEST_FORM = 2  # of `recoveryd_jobs.digest`


class ContractError(ValueError):
    """A record or file that is not what this release writes; the message names the type and field."""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """`stop` None = follow the live head until a directive says stop. Receipts that end before `journaled` are not all there: what it covers is copied."""

    partition: int
    start: int
    stop: int | None
    journaled: int = 0


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """`max_records`/`max_bytes`: this lane's share of the recovery's whole allowance (over all attempts), None = no cap."""

    lane: int
    partitions: tuple[PartitionRange, ...]
    max_records: int | None = None
    max_bytes: int | None = None
    ledger_from: int = 0  # offset of the lane's newest head that the daemon heard of, 0 = none


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """A chunk is committed as soon as one of these is reached."""

    max_bytes: int = 32 * 1024 * 1024
    max_records: int = 250_000
    max_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """`client`: librdkafka properties of the cluster (address, security). Records outside [from_time_ms, to_time_ms) count as filtered."""

    cluster: str
    topic: str
    topic_id: str
    client: dict[str, str]
    from_time_ms: int | None = None
    to_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """`exclusive`: nobody else writes there (on_existing refuse), so offsets of a chunk are expected to be contiguous.

    `starts` and `stops` are (partition, offset): what lies between belongs to the copy, or to somebody else. `starts` = the high watermarks when the plan
    was made, for a verification without a copy where to begin; a partition without one begins at the log start. `stops`: without one, the high watermark
    when the verification starts.
    """

    cluster: str
    topic: str
    topic_id: str
    partitions: int
    client: dict[str, str]
    mapping: str = "same"  # same | key_hash
    headers_add: tuple[tuple[str, str], ...] = ()
    headers_drop: tuple[str, ...] = ()
    exclusive: bool = True
    compression: str = "lz4"
    starts: tuple[tuple[int, int], ...] = ()
    stops: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """Where directives come from and progress goes to (the daemon's own cluster)."""

    client: dict[str, str]
    directives_topic: str
    progress_topic: str


@dataclass(frozen=True, slots=True)
class ReceiptsHome:
    """A recovery's place on the receipts topic of its target cluster, pinned when it was planned and never looked up again.

    `partitions` is how many the topic had then. `start` was the partition's end: nothing of the recovery lies before it.
    """

    topic: str
    topic_id: str
    partition: int
    partitions: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Directive:
    """A lease on what to do: ends `lease_ttl_ms` after a lane received it, by the lane's monotonic clock; a renewal has a higher `sequence`.

    `shares`: lane number to its part of the rates. A lane not named gets 1/lanes. Rates None = unlimited.
    An attempt that reads a directive for a newer attempt leaves at once.
    """

    recovery: str
    attempt: int
    sequence: int
    wanted: str  # run | pause | stop | verify | exit
    lease_ttl_ms: int
    max_bytes_per_s: float | None = None
    max_records_per_s: float | None = None
    floor_bytes_per_s: float = 65_536.0
    shares: dict[int, float] = dataclasses.field(default_factory=dict)
    why: str = ""
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One attempt of one recovery. `directive` is what to do until the first one is read from the topic.

    A `verification` has no lanes that copy: `lanes` only name its source ranges (every stop is given), and `receipts_topic` is "" when nobody kept any.
    """

    kind: str  # replay | verification
    scope: str
    recovery: str
    attempt: int
    lanes: tuple[LaneSpec, ...]
    source: SourceSpec
    target: TargetSpec
    control: ControlSpec
    receipts_topic: str  # on the target cluster
    directive: Directive
    verify: str = "source"  # source (reread it) | digest (the target against the receipts) | count | none
    on_data_loss: str = "fail"  # fail | continue
    chunk: ChunkLimits = ChunkLimits()
    transaction_timeout_ms: int = 60_000
    stop_wait_ms: int = 600_000  # how long to wait for a foreign transaction before the end of the range
    compare: str = "records"  # of a verification: records | latest (the last value of each key)
    receipts: ReceiptsHome | None = None  # None = planned by a release that did not pin it: `receipts_partition`
    orphan_after_ms: int = 900_000  # without any directive for this long, the application ends itself
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class LanePosition:
    """`position` is durable (end of the last receipt); counts are of the whole recovery, all attempts.

    `event_time_ms` is the timestamp of the last record before it, None while this attempt has committed none.
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
    """One lane, once a second. `directive_sequence`: the newest directive it acts on. Rates over the last few seconds.

    `phase` verify: `lane` is the number of a verification task, from 0, and `positions` is empty. Such a task takes an equal share of the directive's rates
    (it does not look at `shares`), counts what it reads on both sides, and obeys `verify`, `pause`, `stop` and `exit`; after `stop` it is `done` and the
    attempt has no verdict. Progress is `verified_offsets` of `offsets_to_verify`, both sides together.
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
    failed_chunks: int = 0  # begun again from the ledger, in this attempt
    ledger_from: int = 0  # offset of the newest head of this lane on the receipts topic, 0 = none
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the target is not what it must be, or where a receipt is not what the reread showed (`ledger`).

    None = has no place on that side. `count` records in a row from there, in the message's words.
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
    """`extra_records`: seen in the target, belong to nobody's copy. `records_by_receipts`: of the source records, those that only receipts prove.

    `unkeyed_*`: seen where only the last value of each key was compared, and in no other count. Every other field counts what was seen, so `target_records` holds the extra ones.
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


@dataclass(frozen=True, slots=True)
class DriverHeartbeat:
    """The driver, once a second and at each change of phase. `drained` = every lane task returned (done, stopped or capped).

    A verification goes from `starting` to `verifying` at once. After a `stop` while verifying the phase is `drained` again.

    `error_code` is one of ERROR_CODES when phase is failed.
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


# What a lane or the driver says when it can not go on; the daemon decides whether another attempt makes sense.
ERROR_CODES = (
    "data_lost",
    "topic_recreated",
    "record_too_large",
    "record_refused",  # the target, or the client, can not take a record as it is (for instance its timestamp); the message names it
    "source_unavailable",
    "target_unavailable",
    "ledger_broken",
    "stop_blocked",
    "not_authorised",  # at the source
    "target_not_authorised",  # at the target or its receipts
    "fenced",
    "internal",
    "slots_missing",  # the application has fewer task slots than lanes that must run at once
    "executors_unfit",  # the executors' Python can not run our tasks
    "spark_unsecured",  # secrets would travel unprotected between driver and executors
)


@dataclass(frozen=True, slots=True)
class TargetRun:
    """The records of one receipt in one target partition: `runs` are [first offset, count] in order, `digest` is hex over them in order ("" = none).

    `digest_form`: how it was made. A digest of another form than DIGEST_FORM proves nothing to this release.
    """

    partition: int
    count: int
    runs: tuple[tuple[int, int], ...]
    digest: str = ""
    digest_form: int = 1  # of releases that did not say


@dataclass(frozen=True, slots=True)
class Receipt:
    """Ledger record of one source partition in one chunk: [start, stop) is done. `copied + filtered + skipped + lost == stop - start`.

    Key on the topic: `<scope>/<recovery>/<partition>/<start>`; partition of the receipts topic: the plan's `ReceiptsHome`. `chunk` counts per lane over all attempts.
    """

    scope: str
    recovery: str
    lane: int
    attempt: int
    chunk: int
    partition: int
    start: int
    stop: int
    copied: int
    filtered: int
    skipped: int
    lost: int
    bytes: int
    targets: tuple[TargetRun, ...] = ()
    source_topic_id: str = ""
    target_topic_id: str = ""
    written_ms: int = 0
    version: int = VERSION

    @property
    def key(self) -> str:
        return f"{self.scope}/{self.recovery}/{self.partition}/{self.start}"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Where one source partition stands: its receipts follow each other from `start` to `position` and add up to this."""

    partition: int
    start: int
    position: int
    copied: int = 0
    filtered: int = 0
    skipped: int = 0
    lost: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """What all receipts of a lane add up to, written now and then in the transaction of a chunk. Whoever begins to read at its offset needs none before it.

    Only a shorter way: the receipts stay, and a reader for whom a head does not fit reads them all. `claimed`: where the lane's records end per target partition.
    The key is no receipt's: a `#` is in no recovery's name.
    """

    scope: str
    recovery: str
    lane: int
    attempt: int
    next_chunk: int
    rows: tuple[LedgerRow, ...]
    claimed: tuple[tuple[int, int], ...] = ()
    source_topic_id: str = ""
    target_topic_id: str = ""
    written_ms: int = 0
    version: int = VERSION

    @property
    def key(self) -> str:
        return head_key(self.scope, self.recovery, self.lane)


def head_key(scope: str, recovery: str, lane: int) -> str:
    return f"{scope}/{recovery}#head/{lane}"


def transactional_id(scope: str, recovery: str, lane: int) -> str:
    """Stable over attempts, so that a newer attempt fences the older one."""
    return f"recoveryd.{scope}.{recovery}.{lane}"


def copy_client_id(scope: str, recovery: str) -> str:
    """`client.id` of all that moves a recovery's data, in any lane: one quota limits their sum. Unambiguous (a scope has no dot), and no other client's."""
    return f"recoveryd-copy.{scope}.{recovery}"


def receipts_partition(recovery: str, partitions: int) -> int:
    """All receipts of a recovery live in one partition of the receipts topic, so that a lane reads only that one.

    To be asked when the recovery is planned, and never again: the answer is another one once the topic has grown.
    """
    return zlib.crc32(recovery.encode()) % partitions


def progress_key(recovery: str, lane: int | None) -> str:
    """Key on the progress topic: one per lane, and one for the driver (`lane` None)."""
    return f"{recovery}/driver" if lane is None else f"{recovery}/lane/{lane}"


def decode_progress(raw: bytes | str) -> "LaneHeartbeat | DriverHeartbeat":
    """Read one record of the progress topic: only a heartbeat has a field `lane`. Raises ContractError."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"progress: not JSON: {error}") from None
    if isinstance(value, dict) and "lane" not in value:
        return decode(DriverHeartbeat, raw)
    return decode(LaneHeartbeat, raw)


def encode(value: object) -> bytes:
    """Compact JSON of a contract dataclass."""
    return json.dumps(dataclasses.asdict(value), separators=(",", ":")).encode()  # type: ignore[call-overload]


T = typing.TypeVar("T")
_hints = functools.cache(typing.get_type_hints)  # resolving them takes longer than the rest of reading a heartbeat


def decode(cls: type[T], raw: bytes | str) -> T:
    """Read what `encode` wrote. Raises ContractError for anything else, naming type and field."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{cls.__name__}: not JSON: {error}") from None
    result = _build(cls, value, cls.__name__)
    if getattr(result, "version", VERSION) != VERSION:
        raise ContractError(f"{cls.__name__}: version {getattr(result, 'version', None)} is not {VERSION}")
    return typing.cast("T", result)


def _build(kind: typing.Any, value: typing.Any, where: str) -> typing.Any:  # noqa: C901, PLR0911  (one branch per JSON shape)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return _build(next(a for a in args if a is not type(None)), value, where)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(typing.cast("type", kind), value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ContractError(f"{where}: a list is needed")
        if len(args) == 2 and args[1] is Ellipsis:
            build = _build_dataclass if dataclasses.is_dataclass(args[0]) else _build
            return tuple([build(args[0], v, where) for v in value])
        if len(value) != len(args):
            raise ContractError(f"{where}: {len(args)} items are needed")
        return tuple(_build(a, v, where) for a, v in zip(args, value, strict=True))
    if origin is dict:
        if not isinstance(value, dict):
            raise ContractError(f"{where}: an object is needed")
        return {_build_key(args[0], k, where): _build(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ContractError(f"{where}: {kind.__name__} is needed, got {type(value).__name__}")
    return value


def _build_key(kind: type, key: str, where: str) -> typing.Any:
    """JSON has no other keys than text."""
    if kind is not int:
        return key
    try:
        return int(key)
    except ValueError:
        raise ContractError(f"{where}: the key {key!r} is no number") from None


def _build_dataclass(kind: type, value: typing.Any, where: str) -> typing.Any:
    if not isinstance(value, dict):
        raise ContractError(f"{where}: an object is needed")
    found: dict[str, typing.Any] = {}
    for name, plain, hint, is_needed in _fields(kind):
        if name in value:
            one = value[name]
            found[name] = one if type(one) in plain else _build(hint, one, f"{where}.{name}")
        elif is_needed:
            raise ContractError(f"{where}: field {name} is missing")
    return kind(**found)


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, frozenset[type], typing.Any, bool], ...]:
    """Name, types that are taken as they are, hint, and whether it must be there. A heartbeat of a thousand partitions has ten thousand of them."""
    hints = _hints(kind)
    return tuple(
        (
            item.name,
            _plain_types(hints[item.name]),
            hints[item.name],
            item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING,
        )
        for item in dataclasses.fields(kind)
    )


def _plain_types(hint: typing.Any) -> frozenset[type]:
    """Exact types, so that a truth value is no number."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return frozenset(kinds) if all(k in (int, str, bool, float, type(None)) for k in kinds) else frozenset()

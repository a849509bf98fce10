"""The records that the daemon and its Spark jobs exchange. Standard library only: the one module of the jobs that the
daemon imports.

Daemon to driver: a `JobSpec` as a JSON file. Daemon to lanes: `Directive` records. Lanes and driver to daemon:
`LaneHeartbeat` and `DriverHeartbeat` records. Lanes to every reader of the ledger, in the same transaction as the
copied records: `Receipt` records. Every record carries a version and is decoded strictly, except that unknown fields
are ignored, so that a newer writer can add some. All times are milliseconds, all ranges half-open.
"""

import dataclasses
import functools
import json
import types
import typing
import zlib
from dataclasses import dataclass

VERSION = 1
DIGEST_FORM = 2  # the form that `recoveryd_jobs.digest` makes


class ContractError(ValueError):
    """A record or file that is not what this release writes; the message names the type and field."""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """[start, stop) of a source partition; `stop` None = follow the live head until a directive says stop.

    `journaled`: the daemon's journal knows that everything before this offset is copied. If the receipts end before it,
    some of them are missing.
    """

    partition: int
    start: int
    stop: int | None
    journaled: int = 0


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """`max_records`, `max_bytes`: this lane's share of what the recovery may copy in all its attempts together, None =
    no cap.
    """

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
    """`client`: librdkafka properties of the cluster (address, security). Records with a time outside [from_time_ms,
    to_time_ms) count as filtered.
    """

    cluster: str
    topic: str
    topic_id: str
    client: dict[str, str]
    from_time_ms: int | None = None
    to_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """`exclusive`: nobody else writes to this topic, so the offsets of a chunk are expected to be contiguous.

    `starts` and `stops` are (partition, offset) pairs; the proof reads the target between them. `starts`: the high
    watermarks when the plan was made, or, for a verification of a copy that is not ours, where to begin. A partition
    without a start begins at the log start, one without a stop ends at the high watermark when the proof starts.
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
    """A recovery's place on the receipts topic of its target cluster, fixed when it was planned and never looked up
    again.

    `partitions` is how many the topic had when planned. `start` was the end of `partition` then: no receipt of the
    recovery lies before it.
    """

    topic: str
    topic_id: str
    partition: int
    partitions: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Directive:
    """What lanes must do, as a lease: it ends `lease_ttl_ms` after a lane received it, by the lane's monotonic clock; a
    renewal has a higher `sequence`.

    `shares`: lane number to its fraction of the rates; a lane that is not in it gets 1/lanes. Rates None = unlimited.
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
    """One attempt of one recovery. `directive` holds until the first one is read from the topic.

    A `verification` has no lanes that copy: its `lanes` only name the source ranges (every stop is given), and
    `receipts_topic` is "" when the copy has no receipts.
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
    verify: str = "source"  # source (reread it) | digest (compare the target with the receipts) | count | none
    on_data_loss: str = "fail"  # fail | continue
    chunk: ChunkLimits = ChunkLimits()
    transaction_timeout_ms: int = 60_000
    stop_wait_ms: int = (
        600_000  # how long to wait for another producer's transaction that is open before the end of the range
    )
    compare: str = "records"  # of a verification: records | latest (only the last value of each key)
    receipts: ReceiptsHome | None = None  # None = planned by a release that did not record it: see `receipts_partition`
    orphan_after_ms: int = 900_000  # the application ends itself after this time without any directive
    version: int = VERSION


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

    In `phase` verify, `lane` is the number of a task of the proof, from 0, and `positions` is empty. Such a task takes
    an equal part of the directive's rates (it ignores `shares`), counts what it reads on both sides, and obeys
    `verify`, `pause`, `stop` and `exit`; after `stop` it is `done` and the attempt has no verdict. Its progress is
    `verified_offsets` of `offsets_to_verify`, both sides together.
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
    failed_chunks: int = 0  # how often this attempt began a chunk again from the ledger
    ledger_from: int = 0  # offset of the newest head of this lane on the receipts topic, 0 = none
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
    "not_authorised",  # at the source
    "target_not_authorised",  # at the target or its receipts
    "fenced",
    "internal",
    "slots_missing",  # the application has fewer task slots than lanes that must run at once
    "executors_unfit",  # the executors' Python cannot run our tasks
    "spark_unsecured",  # secrets would travel unprotected between driver and executors
)


@dataclass(frozen=True, slots=True)
class TargetRun:
    """The records of one receipt in one target partition. `runs` are [first offset, count] in order; `digest` is one
    hex digest over all of them ("" = none).

    `digest_form`: how the digest was made. This release can check DIGEST_FORM only; a digest of another form proves
    nothing.
    """

    partition: int
    count: int
    runs: tuple[tuple[int, int], ...]
    digest: str = ""
    digest_form: int = 1  # what releases wrote that did not name a form


@dataclass(frozen=True, slots=True)
class Receipt:
    """Ledger record of one source partition in one chunk: [start, stop) is done. `copied + filtered + skipped + lost ==
    stop - start`.

    Its key on the topic is `<scope>/<recovery>/<partition>/<start>`; its partition of the receipts topic is in the
    plan's `ReceiptsHome`. `chunk` counts per lane over all attempts.
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
    """The sum of one source partition's receipts, which follow each other without a gap from `start` to `position`."""

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
    """The sum of all receipts of a lane, written now and then in the transaction of a chunk. A reader that begins at
    its offset needs no earlier receipt.

    It only makes reading shorter: the receipts stay, and a reader that cannot use a head reads them all. `claimed`:
    where the lane's records end, by target partition. Its key contains a `#`, which no recovery's name has, so it is
    never taken for a receipt's key.
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
    """`client.id` of every client that moves a recovery's data, in any lane, so that one quota limits their sum.

    No other recovery or client has the same one: a scope has no dot, so the parts cannot be confused.
    """
    return f"recoveryd-copy.{scope}.{recovery}"


def receipts_partition(recovery: str, partitions: int) -> int:
    """All receipts of a recovery live in one partition of the receipts topic, so that a lane reads only that one.

    Call it when the recovery is planned and keep the answer: it changes when the topic gets more partitions.
    """
    return zlib.crc32(recovery.encode()) % partitions


def progress_key(recovery: str, lane: int | None) -> str:
    """Key on the progress topic: one per lane, and one for the driver (`lane` None)."""
    return f"{recovery}/driver" if lane is None else f"{recovery}/lane/{lane}"


def decode_progress(raw: bytes | str) -> "LaneHeartbeat | DriverHeartbeat":
    """Read one record of the progress topic. It is a lane's if it has a field `lane`, else the driver's. Raises
    ContractError.
    """
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
_hints = functools.cache(typing.get_type_hints)  # resolving the hints takes longer than the rest of reading a heartbeat


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


def _build(kind: typing.Any, value: typing.Any, where: str) -> typing.Any:  # noqa: C901, PLR0911  (per JSON shape)
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
    """JSON knows only text as keys, so a number is read from it."""
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
    """Name, types that are taken as they are, type hint, and whether the field is required. Cached: a heartbeat of a
    thousand partitions has ten thousand fields.
    """
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
    """The exact types that need no conversion. Exact, because `True` is an `int` for isinstance."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return frozenset(kinds) if all(k in (int, str, bool, float, type(None)) for k in kinds) else frozenset()

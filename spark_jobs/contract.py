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


class ContractError(ValueError):
    """A record or file that is not what this release writes; the message names the type and field."""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """`stop` None = follow the live head until a directive says stop."""

    partition: int
    start: int
    stop: int | None


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """`max_records`/`max_bytes`: this lane's share of the recovery's whole allowance (over all attempts), None = no cap."""

    lane: int
    partitions: tuple[PartitionRange, ...]
    max_records: int | None = None
    max_bytes: int | None = None


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
    """`exclusive`: nobody else writes there (on_existing refuse), so offsets of a chunk are expected to be contiguous."""

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


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """Where directives come from and progress goes to (the daemon's own cluster)."""

    client: dict[str, str]
    directives_topic: str
    progress_topic: str


@dataclass(frozen=True, slots=True)
class Directive:
    """A lease on what to do: ends `lease_ttl_ms` after a lane received it, by the lane's monotonic clock; a renewal has a higher `sequence`.

    `shares`: lane number (as text) to its part of the rates. A lane not named gets 1/lanes. Rates None = unlimited.
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
    shares: dict[str, float] = dataclasses.field(default_factory=dict)
    why: str = ""
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One attempt of one recovery. `directive` is what to do until the first one is read from the topic."""

    kind: str  # replay
    scope: str
    recovery: str
    attempt: int
    lanes: tuple[LaneSpec, ...]
    source: SourceSpec
    target: TargetSpec
    control: ControlSpec
    receipts_topic: str  # on the target cluster
    directive: Directive
    verify: str = "digest"  # digest | count | none
    on_data_loss: str = "fail"  # fail | continue
    chunk: ChunkLimits = ChunkLimits()
    transaction_timeout_ms: int = 60_000
    stop_wait_ms: int = 600_000  # how long to wait for a foreign transaction before the end of the range
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Position:
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
class Heartbeat:
    """One lane, once a second. `directive_sequence`: the newest directive it acts on. Rates over the last few seconds."""

    recovery: str
    attempt: int
    lane: int
    directive_sequence: int
    state: str  # starting | copying | pausing | paused | draining | done | blocked | leaseless
    chunk_open: bool
    records_per_s: float
    bytes_per_s: float
    positions: tuple[Position, ...]
    why: str = ""
    capped: bool = False
    sent_ms: int = 0
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Difference:
    partition: int
    start: int
    stop: int
    kind: str  # count | digest | missing | extra
    message: str


@dataclass(frozen=True, slots=True)
class VerificationReport:
    result: str  # match | mismatch | skipped
    source_records: int
    target_records: int
    digest: str
    differences: tuple[Difference, ...] = ()  # at most 100
    why: str = ""


@dataclass(frozen=True, slots=True)
class DriverReport:
    """The driver, once a second and at each change of phase. `drained` = every lane task returned (done, stopped or capped).

    `error_code` is one of ERROR_CODES when phase is failed.
    """

    recovery: str
    attempt: int
    phase: str  # starting | lanes | drained | verifying | verified | failed | exiting
    directive_sequence: int = 0
    verification: VerificationReport | None = None
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
    "not_authorised",
    "fenced",
    "internal",
)


@dataclass(frozen=True, slots=True)
class TargetRun:
    """The records of one receipt in one target partition: `runs` are [first offset, count] in order, `digest` is hex over them in order ("" = none)."""

    partition: int
    count: int
    runs: tuple[tuple[int, int], ...]
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Ledger record of one source partition in one chunk: [start, stop) is done. `copied + filtered + skipped + lost == stop - start`.

    Key on the topic: `<scope>/<recovery>/<partition>/<start>`; partition of the receipts topic: `receipts_partition`. `chunk` counts per lane over all attempts.
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


def transactional_id(scope: str, recovery: str, lane: int) -> str:
    """Stable over attempts, so that a newer attempt fences the older one."""
    return f"recoveryd.{scope}.{recovery}.{lane}"


def copy_client_id(scope: str, recovery: str) -> str:
    """`client.id` of all that moves a recovery's data, in any lane: one quota limits their sum. Unambiguous (a scope has no dot), and no other client's."""
    return f"recoveryd-copy.{scope}.{recovery}"


def receipts_partition(recovery: str, partitions: int) -> int:
    """All receipts of a recovery live in one partition of the receipts topic, so that a lane reads only that one."""
    return zlib.crc32(recovery.encode()) % partitions


def progress_key(recovery: str, lane: int | None) -> str:
    """Key on the progress topic: one per lane, and one for the driver (`lane` None)."""
    return f"{recovery}/driver" if lane is None else f"{recovery}/lane/{lane}"


def decode_progress(raw: bytes | str) -> "Heartbeat | DriverReport":
    """Read one record of the progress topic: a lane's heartbeat has a field `lane`, a driver's report has `phase`. Raises ContractError."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"progress: not JSON: {error}") from None
    if isinstance(value, dict) and "phase" in value:
        return decode(DriverReport, raw)
    return decode(Heartbeat, raw)


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
            return tuple(_build(args[0], v, where) for v in value)
        if len(value) != len(args):
            raise ContractError(f"{where}: {len(args)} items are needed")
        return tuple(_build(a, v, where) for a, v in zip(args, value, strict=True))
    if origin is dict:
        if not isinstance(value, dict):
            raise ContractError(f"{where}: an object is needed")
        return {k: _build(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ContractError(f"{where}: {kind.__name__} is needed, got {type(value).__name__}")
    return value


def _build_dataclass(kind: type, value: typing.Any, where: str) -> typing.Any:
    if not isinstance(value, dict):
        raise ContractError(f"{where}: an object is needed")
    hints = _hints(kind)
    found: dict[str, typing.Any] = {}
    for item in dataclasses.fields(kind):
        if item.name in value:
            found[item.name] = _build(hints[item.name], value[item.name], f"{where}.{item.name}")
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise ContractError(f"{where}: field {item.name} is missing")
    return kind(**found)

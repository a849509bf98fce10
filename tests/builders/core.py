"""Builders of core values: each gives a legal default that a test changes where it matters."""

from typing import Any, cast

from recoveryd.capabilities import make_codec, make_status_topic
from recoveryd.holds.spec import HoldSpec, Release, StartHold
from recoveryd.kernel.commands import Meta, StopCommand
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.events import CommandReceived, Seen
from recoveryd.kernel.state import CoreState, DaemonRecord
from recoveryd.kernel.states import State
from recoveryd.live.protecting import Protecting
from recoveryd.live.slice import LIVE, LiveSlice
from recoveryd.metrics.book import MetricsBook
from recoveryd.recovery.commands import Approve, Pause, Reject, Resume, Throttle
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PartitionFacts, PlanFacts, ReceiptsFacts, TopicFacts
from recoveryd.recovery.recoveries import Recoveries
from recoveryd.recovery.slice import RECOVERY, RecoverySlice
from recoveryd.recovery.spec import CaughtUp, Earliest, From, Latest, Limits, SourceRef, To
from recoveryd.replay.spec import Replay, ReplaySpec, TargetRef
from recoveryd.verification.spec import ComparedRef, VerificationSpec, Verify
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.known import Watches
from recoveryd.watches.spec import StartWatch
from tests.builders.deciding import make_capabilities

_THROTTLED = ("max_bytes_per_s", "max_records_per_s", "mode", "weight", "tier")
NOW_MS = 1_800_000_000_000
SOURCE_ID = "source-topic-id"
TARGET_ID = "target-topic-id"


def make_meta(
    subject: str = "r1",
    command_id: str = "c1",
    *,
    content: str = "h",
    expiry_ms: int | None = None,
    source: str = "//ops/alice",
) -> Meta:
    return Meta(
        id=command_id,
        source=source,
        subject=subject,
        reason="because",
        content_hash=content,
        expiry_ms=expiry_ms,
    )


def make_spec(
    start: From | None = None,
    stop: To | None = None,
    *,
    limits: Limits | None = None,
    target: TargetRef | None = None,
    partitions: tuple[int, ...] | None = None,
    **more: object,
) -> ReplaySpec:
    return ReplaySpec(
        source=SourceRef("flights", start or Earliest(), stop or Latest(), partitions=partitions),
        target=target or TargetRef("flights.v2"),
        limits=limits or Limits(),
        **more,  # type: ignore[arg-type]
    )


def make_verification(
    start: From | None = None,
    stop: To | None = None,
    *,
    target: ComparedRef | None = None,
    limits: Limits | None = None,
    partitions: tuple[int, ...] | None = None,
    **more: object,
) -> VerificationSpec:
    return VerificationSpec(
        source=SourceRef("flights", start or Earliest(), stop or Latest(), partitions=partitions),
        target=target or ComparedRef("flights.v2"),
        limits=limits or Limits(),
        **more,  # type: ignore[arg-type]
    )


def make_hold(*topics: str, reads: bool = False, expires_ms: int | None = None) -> HoldSpec:
    return HoldSpec("main", topics or ("flights.v2",), reads, expires_ms)


FOLLOWING = make_spec(stop=CaughtUp())


RECEIPTS = ReceiptsFacts("recovery.receipts.v1", "receipts-id-0123456789", 8, "compact", 3, 1_000)


def make_facts(
    ends: tuple[int, ...] = (100, 50),
    *,
    starts: tuple[int, ...] | None = None,
    target: TopicFacts | None = None,
    no_target: bool = False,
    source_configs: dict[str, str] | None = None,
    slots: int = 2,
    target_ends: tuple[int, ...] | None = None,
    **more: object,
) -> PlanFacts:
    starts = starts or tuple(0 for _ in ends)
    partitions = tuple(PartitionFacts(i, starts[i], end, end, bytes_on_disk=end * 100) for i, end in enumerate(ends))
    source = TopicFacts(
        "flights", SOURCE_ID, len(ends), source_configs or {}, dict(enumerate(starts)), dict(enumerate(ends))
    )
    return PlanFacts(
        source=source,
        source_partitions=partitions,
        target=None if no_target else target or make_target(len(ends)),
        task_slots=slots,
        gathered_at_ms=NOW_MS,
        receipts=RECEIPTS,
        target_partitions=tuple(
            PartitionFacts(i, 0, end, end, bytes_on_disk=end * 100) for i, end in enumerate(target_ends or ends)
        ),
        **more,  # type: ignore[arg-type]
    )


def make_target(partitions: int = 2, *, records: int = 0, **configs: str) -> TopicFacts:
    settings = {"retention.ms": "-1"} | {k.replace("_", "."): v for k, v in configs.items()}
    return TopicFacts(
        "flights.v2",
        TARGET_ID,
        partitions,
        settings,
        dict.fromkeys(range(partitions), 0),
        dict.fromkeys(range(partitions), records),
    )


def command(
    verb: str,
    subject: str = "r1",
    command_id: str | None = None,
    *,
    offset: int = 0,
    previous: Seen | None = None,
    source: str = "//ops/alice",
    broker_ms: int = NOW_MS,
    **more: object,
) -> CommandReceived:
    """The event of a command, as the codec makes it."""
    meta = make_meta(subject, command_id or f"{verb}-{subject}", source=source)
    made = {
        "replay": lambda: Replay(meta, more.get("spec") or make_spec()),  # type: ignore[arg-type]
        "verify": lambda: Verify(meta, more.get("spec") or make_verification()),  # type: ignore[arg-type]
        "pause": lambda: Pause(meta, bool(more.get("release"))),
        "resume": lambda: Resume(meta),
        "stop": lambda: StopCommand(meta),
        "throttle": lambda: Throttle(meta, {n: v for n, v in more.items() if n in _THROTTLED}),  # type: ignore[misc]
        "approve": lambda: Approve(meta, str(more.get("plan_hash"))),
        "reject": lambda: Reject(meta, str(more.get("plan_hash"))),
        "watch": lambda: StartWatch(meta, more["spec"]),  # type: ignore[arg-type]
        "hold": lambda: StartHold(meta, more.get("spec") or make_hold()),  # type: ignore[arg-type]
        "release": lambda: Release(meta, "main", more.get("topics")),  # type: ignore[arg-type]
    }[verb]()
    return CommandReceived(offset=offset, broker_ms=broker_ms, command=made, previous=previous)


STATUS = make_status_topic()
CODEC = make_codec()


def noun_state(noun: Any) -> State:
    """All nouns have a state; the kernel has no use for it."""
    return cast("State", noun.state)


def make_book(params: Params) -> MetricsBook:
    return MetricsBook(make_capabilities(params))


BOOK = make_book(Params())


def to_document(noun: Noun) -> dict[str, Any]:
    """The status record of a recovery or a watch as JSON values."""
    return dict(STATUS.document(noun))


def state_of(
    recoveries: Recoveries | None = None,
    *,
    daemon: DaemonRecord | None = None,
    watches: Watches | None = None,
    protecting: Protecting | None = None,
) -> CoreState:
    """The state of a daemon, from the parts that a test is about."""
    state = CoreState(daemon or DaemonRecord()).having(RECOVERY, RecoverySlice(recoveries or Recoveries()))
    return state.having(WATCHES, watches or Watches()).having(LIVE, LiveSlice(protecting or Protecting()))

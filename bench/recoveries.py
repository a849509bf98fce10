"""Recoveries as a daemon knows them, made by the pure core itself, so that their records have the size and shape of
real ones.
"""

from dataclasses import dataclass, replace

from recoveryd.capabilities import make_decider
from recoveryd.kernel.commands import Meta
from recoveryd.kernel.decide import Decider
from recoveryd.kernel.events import BecameLeader, CommandReceived, Event
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State, Stop, StopReason
from recoveryd.params import params_beside
from recoveryd.recovery.events import FactsGathered
from recoveryd.recovery.model import CompletenessRow, Recovery
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PartitionFacts, PlanFacts, ReceiptsFacts, TopicFacts
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Earliest, Latest, SourceRef
from recoveryd.replay.spec import Replay, ReplaySpec, TargetRef
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat, LanePosition, Verification

NOW_MS = 1_800_000_000_000
PARTITIONS = 4
LANES = 2
_RECORDS = 250_000
_BYTES = 90_000_000
_ROW_BYTES = 85_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a recovery: so many records in each partition."""

    topic: str = "flights"
    topic_id: str = "source-id-0123456789AB"
    partitions: int = PARTITIONS
    records: int = _RECORDS


def start_state(params: Params) -> CoreState:
    """The state of a leader that knows nothing yet."""
    return make_decider(params_beside(params)).decide(CoreState(), BecameLeader(1, "control-topic-id"), NOW_MS).state


def with_running(decider: Decider, state: CoreState, name: str, offset: int, source: Source = Source()) -> CoreState:
    """The state after `name` was requested, planned and launched, and its driver and lanes sent heartbeats."""
    events: tuple[Event, ...] = (
        _asked(name, offset, source),
        FactsGathered(name, _facts(name, source)),
        DriverHeartbeat(name, 1, "lanes", 1),
        *(lane_heartbeat(name, lane, 0, source) for lane in range(LANES)),
    )
    for event in events:
        state = decider.decide(state, event, NOW_MS).state
    if state.of(RECOVERY).recoveries[name].state is not State.RUNNING:
        raise RuntimeError(
            f"{name} is {state.of(RECOVERY).recoveries[name].state}: {state.of(RECOVERY).recoveries[name].why}"
        )
    return state


def lane_heartbeat(name: str, lane: int, position: int, source: Source = Source()) -> LaneHeartbeat:
    """What a lane says once a second."""
    rows = tuple(
        LanePosition(p, position, source.records, "copying", position, 0, 0, 0, position * 350)
        for p in range(lane, source.partitions, LANES)
    )
    return LaneHeartbeat(name, 1, lane, 1, "copying", True, 120_000.0, 41_000_000.0, rows, "")


def completed(count: int) -> list[Recovery]:
    """`count` recoveries of four partitions that ran to their end and were verified."""
    params = Params(max_active_recoveries=2)
    decider = make_decider(params_beside(params))
    running = with_running(decider, start_state(params), "model", 0).of(RECOVERY).recoveries["model"]
    rows = tuple(CompletenessRow(p, 0, _RECORDS, _RECORDS - 10, 0, 10, 0) for p in range(PARTITIONS))
    progress = replace(
        running.progress,
        partitions=tuple(
            replace(p, position=_RECORDS, state="done", copied=_RECORDS - 10, skipped=10, bytes=_ROW_BYTES)
            for p in running.progress.partitions
        ),
        lag_records=0,
        eta_seconds=None,
    )
    model = replace(
        running, state=State.COMPLETED, why="copied and verified", progress=progress, completeness=rows,
        stop=Stop(StopReason.ZERO_LAG, "bounded", NOW_MS + 30_000, {"records": PARTITIONS * _RECORDS}),
        verification=Verification("match", PARTITIONS * (_RECORDS - 10), PARTITIONS * (_RECORDS - 10), "0" * 32),
    )  # fmt: skip
    return [replace(model, id=f"recovery-{number:05d}", control_offset=number) for number in range(count)]


def _asked(name: str, offset: int, source: Source) -> CommandReceived:
    target = TargetRef(f"{name}.copy")
    spec = ReplaySpec(source=SourceRef(source.topic, Earliest(), Latest()), target=target)
    return CommandReceived(offset, NOW_MS, Replay(Meta(f"id-{name}", "//bench", name, "to be measured", "hash"), spec))


def _facts(name: str, source: Source) -> PlanFacts:
    count, records = source.partitions, source.records
    parts = tuple(PartitionFacts(p, 0, records, records, bytes_on_disk=_BYTES) for p in range(count))
    zeros, ends = dict.fromkeys(range(count), 0), dict.fromkeys(range(count), records)
    keep = {"retention.ms": "-1"}
    return PlanFacts(
        source=TopicFacts(source.topic, source.topic_id, count, keep, zeros, ends),
        source_partitions=parts,
        target=TopicFacts(f"{name}.copy", f"target-id-{name}", count, keep, zeros, zeros),
        task_slots=LANES,
        gathered_at_ms=NOW_MS,
        receipts=ReceiptsFacts("recovery.receipts.v1", "receipts-id-0123456789", 8, "compact", 0, 0),
    )

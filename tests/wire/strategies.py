"""Hypothesis strategies: everything that a recovery can hold, valid and changed control records, any bytes."""

import copy
import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from recoveryd.forecast.outlook import Outlook
from recoveryd.forecast.view import CostView, EtaRange, ForecastView, Storage
from recoveryd.holds.model import HeldMember, Hold, Obeys
from recoveryd.holds.signals import HeldPosition
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.kernel.times import MAX_TIME_MS
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.recovery.model import (
    Affected,
    Attempt,
    CompletenessRow,
    DomainBudget,
    EtaSeconds,
    Finding,
    PartitionProgress,
    Plan,
    PlannedBudget,
    PlannedPartition,
    PlannedTopic,
    PlannedTraffic,
    Progress,
    Recovery,
    Severity,
    Wanted,
)
from recoveryd.recovery.spec import AtOffset, AtOffsets, AtTime, CaughtUp, Earliest, Latest, Limits, Never, SourceRef
from recoveryd.replay.spec import ReplaySpec, TargetRef
from recoveryd.units.contract import ContractClause, UnitContract
from recoveryd.units.findings import Grade
from recoveryd.units.model import ClauseName
from recoveryd.verification.spec import ComparedRef, VerificationSpec
from recoveryd.watches.model import Delivery, DeliveryState, Watch, WatchedPartition, WatchProgress
from recoveryd.watches.spec import CallHook, StopUnit, UntilCaughtUp, UntilOffsets, UntilTime, WatchSpec
from recoveryd_jobs.contract import Difference, ReceiptsHome, Verification
from tests.wire.of_types import filled
from tools.examples import COMMANDS, MORE_HOLDS, MORE_RELEASES, MORE_REPLAYS, MORE_VERIFICATIONS, MORE_WATCHES, SIGNALS

text = st.text(st.characters(codec="utf-8"), max_size=20)
counts = st.integers(0, 2**63 - 1)
times_ms = st.integers(0, MAX_TIME_MS)
partitions = st.integers(0, 2**31 - 1)
numbers = st.floats(0, 1e15)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)

_bounds = (
    st.builds(AtOffset, counts)
    | st.builds(AtOffsets, st.dictionaries(partitions, counts, min_size=1, max_size=4))
    | st.builds(AtTime, times_ms)
)
limits = st.builds(
    Limits,
    max_bytes_per_s=st.none() | numbers,
    max_records_per_s=st.none() | numbers,
    max_bytes=st.none() | counts,
    max_records=st.none() | counts,
    max_runtime_ms=st.none() | st.integers(1, 10**12),
    deadline_ms=st.none() | times_ms,
    event_time_ms=st.none() | times_ms,
    idle_ms=st.none() | st.integers(1, 10**12),
    mode=st.sampled_from([None, "unlimited", "fixed", "controller"]),
    weight=st.floats(0.001, 1000.0),
    tier=st.integers(0, 9),
    override_live_slo=st.booleans(),
)
_starts = _bounds | st.just(Earliest())
_sources = st.builds(
    SourceRef,
    topic=text,
    start=_starts,
    stop=_bounds | st.sampled_from([Latest(), CaughtUp(), Never()]),
    cluster=text,
    partitions=st.none() | st.lists(partitions, max_size=4).map(tuple),
)
_headers = {
    "headers_add": st.dictionaries(text, text, max_size=3).map(lambda d: tuple(d.items())),
    "headers_drop": st.lists(text, max_size=3).map(tuple),
}
replay_specs = st.builds(
    ReplaySpec,
    source=_sources,
    target=st.builds(
        TargetRef,
        topic=text,
        cluster=text,
        create=st.booleans(),
        on_existing=st.sampled_from(["refuse", "append"]),
        mapping=st.sampled_from(["same", "key_hash"]),
        topic_id=st.none() | text,
        **_headers,
    ),
    limits=limits,
    dry_run=st.booleans(),
    plan_hash=st.none() | text,
    on_data_loss=st.sampled_from(["fail", "continue"]),
    verify=st.sampled_from(["source", "digest", "count", "none"]),
    profile=text,
)
verification_specs = st.builds(
    VerificationSpec,
    source=_sources,
    target=st.builds(
        ComparedRef,
        topic=text,
        cluster=text,
        start=st.none() | _starts,
        mapping=st.sampled_from(["same", "key_hash"]),
        **_headers,
    ),
    limits=limits,
    dry_run=st.booleans(),
    plan_hash=st.none() | text,
    compare=st.sampled_from(["records", "latest"]),
    profile=text,
)
_planned_topics = st.builds(PlannedTopic, text, text, text, st.integers(0, 1000))
_seconds = st.none() | numbers
forecasts = st.builds(
    ForecastView,
    outlook=st.sampled_from(Outlook).map(str),
    outlooks=st.lists(st.sampled_from(Outlook).map(str), max_size=3).map(tuple),
    sentence=text,
    suggestion=text,
    is_moving=st.booleans(),
    eta_seconds=st.builds(EtaRange, _seconds, _seconds, _seconds),
    bounded_s=_seconds,
    moving_s=_seconds,
    speed_up=_seconds,
    window_s=_seconds,
    backlog=numbers,
    replay_per_s=numbers,
    live_per_s=_seconds,
    rate_source=text,
    live_source=text,
    required_per_s=_seconds,
    deadline_s=_seconds,
    extra_share=_seconds,
    loss_in_s=_seconds,
    slack_s=_seconds,
    lost_data_s=numbers,
    partition=st.none() | partitions,
    storage=st.none() | st.builds(Storage, counts, counts, st.none() | counts),
    cost=st.none() | st.builds(CostView, text, *[numbers] * 5),
    at_ms=st.none() | times_ms,
)
plans = st.builds(
    Plan,
    hash=text,
    source=_planned_topics,
    target=_planned_topics,
    partitions=st.lists(
        st.builds(
            PlannedPartition,
            partitions,
            counts,
            st.none() | counts,
            st.booleans(),
            *[counts] * 3,
            *[st.none() | times_ms] * 2,
        ),
        max_size=4,
    ).map(tuple),
    lanes=st.lists(st.lists(partitions, max_size=3).map(tuple), max_size=3).map(tuple),
    from_time_ms=st.none() | times_ms,
    to_time_ms=st.none() | times_ms,
    records_at_most=counts,
    bytes_at_most=counts,
    eta_seconds=st.none() | st.builds(EtaSeconds, numbers, numbers, st.none() | numbers),
    retention_ms=st.none() | counts,
    retention_bytes=st.none() | counts,
    target_starts=st.lists(st.tuples(partitions, counts), max_size=3).map(tuple),
    target_stops=st.lists(st.tuples(partitions, counts), max_size=3).map(tuple),
    forecast=st.none() | forecasts,
    receipts=st.none() | st.builds(ReceiptsHome, text, text, partitions, partitions, counts),
    budget=st.none()
    | st.builds(
        PlannedBudget,
        st.sampled_from(["unlimited", "fixed", "controller"]),
        *[st.none() | numbers] * 3,
        counts,
        st.lists(st.builds(DomainBudget, text, numbers), max_size=2).map(tuple),
        st.none() | numbers,
        numbers,
        counts,
        text,
    ),
    traffic=st.none() | st.builds(PlannedTraffic, st.sampled_from(["live", "replay"]), text),
    hourly=st.none() | st.lists(numbers, max_size=24).map(tuple),
    impact=st.lists(
        st.builds(
            Affected,
            st.sampled_from(["group", "sink"]),
            text,
            st.none() | text,
            st.sampled_from(["idempotent", "transactional", "append_only", "unknown"]),
            st.none() | text,
            text,
        ),
        max_size=2,
    ).map(tuple),
    contracts=st.lists(
        st.builds(
            UnitContract,
            text,
            text,
            st.lists(
                st.builds(ContractClause, st.sampled_from(ClauseName), st.sampled_from(Grade), text), max_size=2
            ).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    create_target=st.booleans(),
    create_configs=st.dictionaries(text, text, max_size=3),
    findings=st.lists(st.builds(Finding, text, st.sampled_from(Severity), text), max_size=3).map(tuple),
    pinned_at_ms=times_ms,
)
_progress = st.builds(
    Progress,
    partitions=st.lists(
        st.builds(
            PartitionProgress,
            partitions,
            counts,
            st.none() | counts,
            st.sampled_from(["waiting", "copying", "paused", "blocked", "stopped", "done"]),
            *[counts] * 5,
        ),
        max_size=4,
    ).map(tuple),
    records_per_s=numbers,
    bytes_per_s=numbers,
    lag_records=st.none() | counts,
    eta_seconds=st.none() | numbers,
    forecast=st.none() | forecasts,
)
_differences = st.builds(
    Difference,
    st.sampled_from(["missing", "extra", "altered", "reordered", "ledger"]),
    *[st.none() | partitions, st.none() | counts] * 2,
    counts,
    text,
)
_verifications = st.builds(
    Verification,
    result=st.sampled_from(["match", "mismatch", "skipped"]),
    source_records=counts,
    target_records=counts,
    digest=text,
    differences=st.lists(_differences, max_size=3).map(tuple),
    why=text,
    scope=st.sampled_from(["source", "mixed", "receipts", ""]),
    extra_records=counts,
    records_by_receipts=counts,
    unkeyed_source_records=counts,
    unkeyed_target_records=counts,
)
_stops = st.builds(
    Stop,
    st.sampled_from(StopReason),
    st.none() | st.sampled_from(["bounded", "caught_up"]),
    times_ms,
    st.dictionaries(text, json_values, max_size=3),
)
_states = st.sampled_from(State)
_replays = st.builds(
    Recovery,
    id=text,
    kind=st.just(ReplaySpec.kind),
    state=_states,
    why=text,
    version=counts,
    created_ms=times_ms,
    updated_ms=times_ms,
    command=st.builds(CommandRef, text, text, text),
    spec=replay_specs,
    control_offset=st.integers(-1, 2**63 - 1),
    answered=st.booleans(),
    plan=st.none() | plans,
    attempt=filled(Attempt),
    wanted=st.sampled_from(Wanted),
    directive_sequence=counts,
    wanted_sequence=counts,
    progress=_progress,
    limits=limits,
    rule=text,
    effective_bytes_per_s=st.none() | numbers,
    stop=st.none() | _stops,
    stop_state=st.none() | _states,
    completeness=st.lists(
        st.builds(CompletenessRow, partitions, *[counts] * 6, *[st.none() | times_ms] * 2), max_size=4
    ).map(tuple),
    verification=st.none() | _verifications,
    started_ms=st.none() | times_ms,
    resume_state=st.none() | _states,
    error_code=st.none() | text,
    held=st.sampled_from(["", "telemetry", "live_slo"]),
)
recoveries = _replays | st.builds(
    lambda recovery, spec: replace(recovery, kind=spec.kind, spec=spec), _replays, verification_specs
)

GOOD_EVENTS: list[dict[str, Any]] = [
    *COMMANDS.values(),
    *MORE_REPLAYS,
    *MORE_VERIFICATIONS,
    *MORE_WATCHES,
    *MORE_HOLDS,
    *MORE_RELEASES,
    *SIGNALS.values(),
]
good_events = st.sampled_from(GOOD_EVENTS)
# Copied, because a value that was put into an event may be changed again.
_odd_values = json_values | st.sampled_from(
    [
        "caught_up",
        "notify",
        {"webhook": "x"},
        {"offsets": {"0": 1}},
        {"deadline": "2h"},
        "",
        "-2h",
        "earliest",
        "2026-11-21",
        "\x00",
        "\x1b[0m",
        -1,
        2**63,
        1e308,
        [],
        {},
        {"offset": 1},
        "a" * 300,
    ]
).map(copy.deepcopy)


@st.composite
def bent_events(draw: st.DrawFn) -> Any:
    """A valid event with a few things replaced, removed, renamed or added, anywhere in it."""
    event = json.loads(json.dumps(draw(good_events)))
    for _ in range(draw(st.integers(1, 3))):
        place = event
        while True:
            names = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not names:
                break
            name = draw(st.sampled_from(names))
            inner = place[name]
            if isinstance(inner, dict | list) and inner and draw(st.booleans()):
                place = inner
                continue
            _bend(draw, place, name)
            break
    return event


def _bend(draw: st.DrawFn, place: Any, name: Any) -> None:
    how = draw(st.sampled_from(["replace", "remove", "rename", "add"]))
    if how == "replace" or isinstance(place, list):
        place[name] = draw(_odd_values)
    elif how == "add":
        place[draw(text)] = draw(_odd_values)
    else:
        value = place.pop(name)
        if how == "rename":
            place[draw(st.sampled_from([name + "s", name.upper(), name[1:], name.replace("_", ""), draw(text)]))] = (
                value
            )


@st.composite
def damaged_bytes(draw: st.DrawFn) -> bytes:
    """The bytes of a valid event with a piece cut out, doubled, or replaced by other bytes."""
    raw = json.dumps(draw(good_events)).encode()
    start = draw(st.integers(0, len(raw)))
    stop = draw(st.integers(start, len(raw)))
    return raw[:start] + draw(st.just(b"") | st.just(raw[start:stop] * 2) | st.binary(max_size=20)) + raw[stop:]


headers = st.lists(
    st.tuples(
        st.sampled_from(
            ["content-type", "Content-Type", "ce_id", "ce_source", "ce_type", "ce_subject", "ce_specversion"]
        )
        | text,
        st.none()
        | st.binary(max_size=30)
        | st.sampled_from(
            [b"application/cloudevents+json", b"application/json", b"1.0", b"io.recoveryd.command.pause.v1"]
        ),
    ),
    max_size=8,
).map(tuple)


_topics = st.lists(text, max_size=3).map(tuple)
holds = st.builds(
    Hold,
    id=text,
    state=st.sampled_from([State.RUNNING, State.COMPLETED, State.STOPPED, State.EXPIRED]),
    why=text,
    version=counts,
    created_ms=times_ms,
    updated_ms=times_ms,
    command=st.builds(CommandRef, text, text, text),
    cluster=text,
    topics=_topics,
    reads=st.booleans(),
    expires_ms=st.none() | times_ms,
    released=_topics,
    missing=_topics,
    members=st.lists(
        st.builds(
            HeldMember,
            text,
            text,
            st.sampled_from(Obeys),
            times_ms,
            text,
            st.lists(st.builds(HeldPosition, text, partitions, st.none() | counts), max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    obeyed=_topics,
    stop=st.none() | st.builds(Stop, st.sampled_from(StopReason), st.none(), times_ms, st.just({"held_ms": 5})),
)
_watched_partitions = st.builds(
    WatchedPartition,
    text,
    partitions,
    st.none() | counts,
    st.none() | counts,
    st.none() | counts,
    st.sampled_from([verdict.value for verdict in LagVerdict]),
    st.booleans(),
)
_offsets_by_topic = st.dictionaries(text, st.dictionaries(partitions, counts, max_size=3), max_size=3)
_configured = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
watches = st.builds(
    Watch,
    id=text,
    state=st.sampled_from([State.RUNNING, State.COMPLETED, State.STOPPED, State.FAILED]),
    why=text,
    version=counts,
    created_ms=times_ms,
    updated_ms=times_ms,
    command=st.builds(CommandRef, text, text, text),
    spec=st.builds(
        WatchSpec,
        cluster=text,
        group=text,
        topics=st.lists(text, max_size=3).map(tuple),
        until=st.one_of(
            st.just(UntilCaughtUp()), st.builds(UntilOffsets, _offsets_by_topic), st.builds(UntilTime, times_ms)
        ),
        then=st.none() | st.builds(CallHook, _configured) | st.builds(StopUnit, _configured),
        deadline_ms=st.none() | times_ms,
        tolerance_records=counts,
    ),
    progress=st.builds(
        WatchProgress,
        lag_records=st.none() | counts,
        lag_seconds=st.none() | numbers,
        coverage=numbers,
        evaluations=counts,
        done=counts,
        planned=counts,
        partitions=st.lists(_watched_partitions, max_size=3).map(tuple),
    ),
    reached=st.dictionaries(text, st.frozensets(partitions, max_size=3), max_size=3),
    topic_ids=st.dictionaries(text, text, max_size=3),
    stop=st.none() | _stops,
    delivery=st.none()
    | st.builds(
        Delivery,
        webhook=text,
        id=text,
        state=st.sampled_from(DeliveryState),
        wanted_ms=times_ms,
        ended_ms=st.none() | times_ms,
        status=st.none() | counts,
        attempts=counts,
        message=text,
    ),
    error_code=st.none() | text,
)

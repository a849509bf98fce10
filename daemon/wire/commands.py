"""The data of each command: one pydantic model per verb, with the wire's names and defaults, and how it becomes a command of the core.

Codec, JSON Schemas, docs and the command line all derive from these models; a field that is not here does not exist. Rules that need the world (does
the topic exist, is the range inside the log) are the core's.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from daemon.core.catalogue import Code
from daemon.core.commands import (
    Approve,
    Command,
    Limits,
    Meta,
    Pause,
    Reject,
    Replay,
    ReplaySpec,
    Resume,
    SourceRef,
    StartWatch,
    StopRecovery,
    TargetRef,
    Throttle,
    Verify,
)
from daemon.wire.bounds import End, Start
from daemon.wire.command_data import CommandData
from daemon.wire.data_parts import MODE, GuestLimitsData, HeadersData, JobData, Mode, PlanHash, check_mode
from daemon.wire.fields import (
    Count,
    EventTime,
    Name,
    Partitions,
    Rate,
    Runtime,
    Strict,
    Tier,
    Topic,
    Weight,
)
from daemon.wire.problems import wrong
from daemon.wire.verify_data import VerifyData
from daemon.wire.watch_data import WatchData


class SourceData(Strict):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    topic: Topic = Field(description="one topic")
    partitions: Partitions | None = Field(default=None, description="list of partitions; all when left out")
    start: Start = Field(
        alias="from",
        description='`earliest`, `{"offset":n}`, `{"offsets":{"0":n}}`, a time with zone, or a duration back from now (`-2h`)',
    )
    stop: End = Field(
        alias="to",
        description="`latest` (pinned when planned), offset(s), a time (ends at the first record that new; older ones behind it are not part of the range), `caught_up` (follow the live head, stop by "
        "itself at zero lag), `never` (follow until told)",
    )


class TargetData(Strict):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    topic: Topic = Field(description="not internal (`_` prefix), not the source")
    create: bool = Field(
        default=False, description="create it with the source's partition count and configs that keep the data"
    )
    on_existing: Literal["refuse", "append"] = Field(
        default="refuse", description="what to do when it already has records"
    )
    mapping: Literal["same", "key_hash"] = Field(
        default="same", description="same partition number, or Kafka's murmur2 of the key"
    )
    headers: HeadersData = Field(default=HeadersData(), description="changes of headers; none: bit-identical")


class RatesData(Strict):
    max_bytes_per_s: Rate | None = Field(default=None, description="rate of all lanes together; null lifts")
    max_records_per_s: Rate | None = Field(default=None, description="rate of all lanes together; null lifts")
    mode: Mode | None = Field(default=None, description=f"{MODE}; null = by what is protected and what rate is given")
    weight: Weight | None = Field(default=None, description="its share next to others; null = 1")
    tier: Tier | None = Field(default=None, description="lower tiers are served first; null = 0")

    @model_validator(mode="after")
    def _names_a_rate(self) -> Self:
        if not self.model_fields_set:
            raise wrong(
                "is empty", "Name max_bytes_per_s or max_records_per_s; null lifts it.", code=Code.MISSING_FIELD
            )
        has_rate = self.max_bytes_per_s is not None or self.max_records_per_s is not None
        # One that is not named stays as it is, so only the daemon knows whether a fixed mode has a rate.
        if has_rate or self.mode != "fixed" or {"max_bytes_per_s", "max_records_per_s"} <= self.model_fields_set:
            check_mode(self.mode, has_rate)
        return self


class LimitsData(GuestLimitsData):
    max_bytes: Count | None = Field(default=None, description="stop after so many bytes")
    max_records: Count | None = Field(default=None, description="stop after so many records")
    event_time: EventTime | None = Field(
        default=None,
        description="stop when every partition is past records of this time, or has been at its end for `idle` (60s)",
    )
    idle: Runtime | None = Field(
        default=None, description="stop when every partition was at its end, and nothing came, for this long"
    )

    def to_core(self) -> Limits:
        return replace(
            super().to_core(),
            max_bytes=self.max_bytes,
            max_records=self.max_records,
            event_time_ms=self.event_time,
            idle_ms=self.idle,
        )


class ReplayData(CommandData):
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )
    source: SourceData
    target: TargetData
    limits: LimitsData = Field(default=LimitsData())
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="what to do when retention or deletion took part of the range; `continue` records it",
    )
    verify: Literal["source", "digest", "count", "none"] = Field(
        default="source",
        description="how the target is proven: by reading the source again, by the digests or the counts of receipts, or not",
    )
    job: JobData = Field(default=JobData())

    @model_validator(mode="after")
    def _copies_elsewhere(self) -> Self:
        if (self.source.cluster, self.source.topic) == (self.target.cluster, self.target.topic):
            raise wrong(f"has {self.source.topic} as both source.topic and target.topic", code=Code.SAME_TOPIC)
        return self

    def to_core(self) -> ReplaySpec:
        source, target = self.source, self.target
        return ReplaySpec(
            source=SourceRef(source.topic, source.start, source.stop, source.cluster, source.partitions),
            target=TargetRef(
                topic=target.topic,
                cluster=target.cluster,
                create=target.create,
                on_existing=target.on_existing,
                mapping=target.mapping,
                headers_add=tuple(target.headers.add.items()),
                headers_drop=target.headers.drop,
            ),
            limits=self.limits.to_core(),
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
            on_data_loss=self.on_data_loss,
            verify=self.verify,
            profile=self.job.profile,
        )


class PauseData(CommandData):
    pass


class ResumeData(CommandData):
    pass


class StopData(CommandData):
    pass


class ThrottleData(CommandData):
    limits: RatesData = Field(description="what is not named stays as it is; null lifts it")


class ApproveData(CommandData):
    plan_hash: PlanHash


class RejectData(CommandData):
    plan_hash: PlanHash


@dataclass(frozen=True, slots=True)
class VerbSpec:
    """The model of a verb's data, what the verb does in one line, and how validated data becomes a command."""

    model: type[CommandData]
    effect: str
    make: Callable[[Meta, CommandData], Command]


def _replay(meta: Meta, data: CommandData) -> Command:
    assert isinstance(data, ReplayData)
    return Replay(meta, data.to_core())


def _verify(meta: Meta, data: CommandData) -> Command:
    assert isinstance(data, VerifyData)
    return Verify(meta, data.to_core())


def _throttle(meta: Meta, data: CommandData) -> Command:
    assert isinstance(data, ThrottleData)
    return Throttle(meta, {name: getattr(data.limits, name) for name in sorted(data.limits.model_fields_set)})


def _approve(meta: Meta, data: CommandData) -> Command:
    assert isinstance(data, ApproveData)
    return Approve(meta, data.plan_hash)


def _reject(meta: Meta, data: CommandData) -> Command:
    assert isinstance(data, RejectData)
    return Reject(meta, data.plan_hash)


def _watch(meta: Meta, data: CommandData) -> Command:
    assert isinstance(data, WatchData)
    return StartWatch(meta, data.to_core())


VERB_SPECS: Final[dict[str, VerbSpec]] = {
    "replay": VerbSpec(ReplayData, "new recovery: copy a range of a topic", _replay),
    "verify": VerbSpec(
        VerifyData, "new recovery that only reads: compare a range of a topic with any copy of it", _verify
    ),
    "pause": VerbSpec(
        PauseData, "drained: `pausing`, then `paused` once no chunk is open", lambda meta, _: Pause(meta)
    ),
    "resume": VerbSpec(ResumeData, "continues at the exact position", lambda meta, _: Resume(meta)),
    "stop": VerbSpec(StopData, "drained stop at a chunk boundary; ends `stopped`", lambda meta, _: StopRecovery(meta)),
    "throttle": VerbSpec(ThrottleData, "takes effect within 5 s, without a new Spark application", _throttle),
    "approve": VerbSpec(ApproveData, "lets a recovery in `awaiting_approval` run", _approve),
    "reject": VerbSpec(RejectData, "ends a recovery in `awaiting_approval`", _reject),
    "watch": VerbSpec(WatchData, "new watch: tell when a consumer group of others is where it is wanted", _watch),
}

"""The data of `replay`, with the wire's names and defaults."""

from dataclasses import replace
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.spec import Limits, SourceRef
from recoveryd.recovery.wire.bounds import CopiedStart, End
from recoveryd.recovery.wire.parts import GuestLimitsData, HeadersData, JobData, PlanHash
from recoveryd.replay.spec import Replay, ReplaySpec, TargetRef
from recoveryd.wire.fields import ByteCount, Count, EventTime, Name, Partitions, Runtime, Strict, Topic
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.wire.problems import wrong


class SourceData(Strict):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    topic: Topic = Field(description="one topic")
    partitions: Partitions | None = Field(default=None, description="list of partitions; all when left out")
    start: CopiedStart = Field(
        alias="from",
        description=(
            '`earliest`, `{"offset":n}`, `{"offsets":{"0":n}}` (with `"others":"earliest"` for partitions not named, '
            "`topic_id` of the topic they are meant for, and `since` where older records are left out), a time with zone, "
            "or a duration back from now (`-2h`)"
        ),
    )
    stop: End = Field(
        alias="to",
        description="`latest` (pinned when planned), offset(s), a time (ends at the first record that new; older ones "
        "behind it are not part of the range), `caught_up` (follow the live head, stop by "
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
    topic_id: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9+/_=-]{1,64}$",
        description="refused when the topic has another id, because it was deleted and created again",
    )


class LimitsData(GuestLimitsData):
    max_bytes: ByteCount | None = Field(default=None, description="stop after so many bytes")
    max_records: Count | None = Field(default=None, description="stop after so many records")
    max_lanes: Count | None = Field(
        default=None, description="at most so many lanes copy at once; left out: as many as the profile has task slots"
    )
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
            max_lanes=self.max_lanes,
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
        description=(
            "how the target is proven: by reading the source again, by the digests or the counts of receipts, or not"
        ),
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
                topic_id=target.topic_id,
            ),
            limits=self.limits.to_core(),
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
            on_data_loss=self.on_data_loss,
            verify=self.verify,
            profile=self.job.profile,
        )


FORM: Final = verb_form(
    ReplayData, "new recovery: copy a range of a topic", lambda meta, data: Replay(meta, data.to_core())
)

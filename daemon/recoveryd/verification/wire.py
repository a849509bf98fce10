"""The data of the command `verify`: two topics that are only read, and how they are compared.

`source` and `target` are as in `replay`, except that the range must end, that nothing is created, and that the target
may have bounds of its own. `mapping` and `headers` may be given beside `target`, or in it as in `replay`.
"""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.spec import SourceRef
from recoveryd.recovery.wire.bounds import PinnedEnd, Start
from recoveryd.recovery.wire.parts import GuestLimitsData, HeadersData, JobData, PlanHash
from recoveryd.verification.spec import ComparedRef, VerificationSpec, Verify
from recoveryd.wire.fields import AnyTopic, ByteRate, Name, Partitions, Rate, Runtime, Strict
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.wire.problems import wrong

Mapping = Literal["same", "key_hash"]


class VerifySourceData(Strict):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    topic: AnyTopic = Field(description="one topic; none of recoveryd's own")
    partitions: Partitions | None = Field(default=None, description="list of partitions; all when left out")
    start: Start = Field(
        default="earliest",
        validate_default=True,
        alias="from",
        description=(
            '`earliest`, `{"offset":n}`, `{"offsets":{"0":n}}`, a time with zone, or a duration back from now (`-2h`)'
        ),
    )
    stop: PinnedEnd = Field(
        default="latest",
        validate_default=True,
        alias="to",
        description=(
            "`latest` (pinned when planned), offset(s), or a time (exclusive); a time chooses by the time of "
            "each record, on both sides"
        ),
    )


class VerifyTargetData(Strict):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    topic: AnyTopic = Field(description="the copy, whoever made it; none of recoveryd's own, not the source")
    start: Start | None = Field(
        default=None,
        alias="from",
        description=(
            "where the target is read from: as `source.from`, in the target; left out: the same bound as the source's"
        ),
    )
    mapping: Mapping | None = Field(default=None, description="as `mapping` beside it")
    headers: HeadersData | None = Field(default=None, description="as `headers` beside it")


class VerifyLimitsData(GuestLimitsData):
    max_bytes_per_s: ByteRate | None = Field(default=None, description="rate of all tasks together, both sides counted")
    max_records_per_s: Rate | None = Field(default=None, description="rate of all tasks together, both sides counted")
    max_runtime: Runtime | None = Field(
        default=None, description="stop after this time, counted from the first attempt; there is no verdict then"
    )


class VerifyData(CommandData):
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )
    source: VerifySourceData
    target: VerifyTargetData
    mapping: Mapping | None = Field(
        default=None,
        description=(
            "where a record has to be: in the `same` partition number (when left out), or by Kafka's murmur2 of its key"
        ),
    )
    headers: HeadersData | None = Field(
        default=None, description="changes of headers that the copy was made with; left out: bit-identical"
    )
    compare: Literal["records", "latest"] = Field(
        default="records",
        description="every record in order, or the last value of each key, for compacted topics",
    )
    limits: VerifyLimitsData = Field(default=VerifyLimitsData())
    job: JobData = Field(default=JobData())

    @model_validator(mode="after")
    def _compares_two_topics(self) -> Self:
        if (self.source.cluster, self.source.topic) == (self.target.cluster, self.target.topic):
            raise wrong(f"has {self.source.topic} as both source.topic and target.topic", code=Code.SAME_TOPIC)
        for name in ("mapping", "headers"):
            beside, inside = getattr(self, name), getattr(self.target, name)
            if beside is not None and inside is not None and beside != inside:
                raise wrong(f"says {name} and target.{name}, and they differ", f"Say {name} once.")
        return self

    def to_core(self) -> VerificationSpec:
        source, target = self.source, self.target
        headers = self.headers or target.headers or HeadersData()
        return VerificationSpec(
            source=SourceRef(source.topic, source.start, source.stop, source.cluster, source.partitions),
            target=ComparedRef(
                topic=target.topic,
                cluster=target.cluster,
                start=target.start,
                mapping=self.mapping or target.mapping or "same",
                headers_add=tuple(headers.add.items()),
                headers_drop=headers.drop,
            ),
            limits=self.limits.to_core(),
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
            compare=self.compare,
            profile=self.job.profile,
        )


FORM: Final = verb_form(
    VerifyData,
    "new recovery that only reads: compare a range of a topic with any copy of it",
    lambda meta, data: Verify(meta, data.to_core()),
)

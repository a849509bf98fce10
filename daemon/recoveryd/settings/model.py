"""Every option there is, with its default, its bounds and one line of what it does.

Where values come from (file, environment, command line) is `sources`; the reference in config/recoveryd.yaml is compared with this module by a test.
Durations are held in ms, sizes in bytes; both are written as text (`5s`, `32MiB`) or as a number of seconds or bytes.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from recoveryd.settings.kafka_properties import PROPERTIES
from recoveryd.settings.kinds import Count, Duration, Listen, Section, Size, Word, at_most
from recoveryd.settings.live import ControlSection, MonitorSection
from recoveryd.settings.prices import PricesSection
from recoveryd.settings.profiles import Profile
from recoveryd.settings.webhooks import WebhookSection

# What may stand in the file; the model itself sees texts only, after secrets were read.
_PROPERTY_SCHEMA: Final = {
    "anyOf": [
        {"type": ["string", "number", "boolean"]},
        {
            "type": "object",
            "properties": {"file": {"type": "string"}},
            "required": ["file"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"env": {"type": "string"}},
            "required": ["env"],
            "additionalProperties": False,
        },
    ]
}
_CLUSTERS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["main"],
    "additionalProperties": {
        "type": "object",
        "properties": dict.fromkeys(PROPERTIES, _PROPERTY_SCHEMA),
        "required": ["bootstrap.servers"],
        "additionalProperties": False,
    },
}


class TopicsSection(Section):
    prefix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,200}$")] = Field(
        default="recovery.", description="Names of recoveryd's own topics start with this."
    )
    replication_factor: Annotated[int, Field(ge=-1, le=32767)] = Field(
        default=-1, description="Of topics that `recoveryctl topics apply` creates; -1 is the broker's default."
    )
    receipts_partitions: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=8, description="Partitions of the receipts topic when it is created."
    )


class HttpSection(Section):
    listen: Listen = Field(
        default="127.0.0.1:8712", description="HOST:PORT of health, metrics and API; port 0 takes a free one."
    )

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


class LogSection(Section):
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="auto | console | json; auto is console on a terminal, else json."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug | info | warning | error."
    )
    events: str | None = Field(
        default=None,
        description="A file that gets everything the daemon decides on, for `recoveryctl history`; it holds commands whole.",
    )
    events_most: Size = Field(default=256 * 2**20, description="Where that file ends.")


class ChunkSection(Section):
    max_bytes: Annotated[Size, at_most(2**30, "1GiB")] = Field(
        default=32 * 2**20, description="A chunk is committed at this size."
    )
    max_records: Annotated[Count, Field(le=10_000_000)] = Field(
        default=250_000, description="A chunk is committed at this count."
    )
    max_interval: Annotated[Duration, at_most(30_000, "30s")] = Field(
        default=5_000,
        description="A chunk is committed after this time; at most 30s, it holds the target's last stable offset.",
    )


class LeaseSection(Section):
    ttl: Duration = Field(
        default=30_000, description="Without a new directive for this long, lanes slow down and then pause."
    )
    renew_every: Duration = Field(default=8_000, description="How often the daemon renews; well below ttl.")
    floor_bytes_per_s: Size = Field(
        default=64 * 2**10, description="The slowest rate a lane falls to before it pauses."
    )
    orphan_after: Duration = Field(
        default=900_000,
        description="An application that heard nothing of a daemon for this long ends itself; at least two ttl.",
    )

    @model_validator(mode="after")
    def _renews_in_time(self) -> Self:
        if self.renew_every * 2 > self.ttl:
            raise ValueError(
                "renew_every must be at most half of ttl, so that one lost directive does not slow a recovery"
            )
        if self.orphan_after < self.ttl * 2:
            raise ValueError("orphan_after must be at least two ttl: lanes slow down and pause before they leave")
        return self


class AttemptsSection(Section):
    max_failures: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=5, description="Failures in a row without progress until a recovery fails."
    )
    max_failures_per_hour: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=20, description="Failures within an hour, with progress or without, until a recovery fails."
    )
    max_failed_chunks_per_hour: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=200, description="Chunks that one lane had to do again within an hour until a recovery fails."
    )
    backoff_first: Duration = Field(default=1_000, description="Wait before the second attempt; doubles.")
    backoff_max: Duration = Field(default=60_000, description="The longest wait between attempts.")
    adopt_wait: Duration = Field(
        default=10_000, description="How long a new daemon waits for a heartbeat before it launches."
    )
    launch_timeout: Duration = Field(default=90_000, description="From launch to the first heartbeat.")
    heartbeat_timeout: Duration = Field(default=20_000, description="An attempt silent for this long is dead.")
    transaction_timeout: Annotated[Duration, at_most(900_000, "15m")] = Field(
        default=60_000, description="Of the lanes' transactions; the broker allows at most 15m by default."
    )
    stop_wait: Duration = Field(
        default=600_000, description="How long to wait for a foreign transaction before the end of the range."
    )
    keep_paused: Duration = Field(
        default=600_000, description="The application of a paused recovery is kept alive for this long."
    )
    stall_after: Duration = Field(default=600_000, description="No progress for this long ends a recovery as stalled.")


class LimitsSection(Section):
    max_active_recoveries: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=50, description="More are refused with RCV-1020."
    )
    keep_terminal: Duration = Field(
        default=90 * 86_400_000,
        description="A recovery or watch that ended this long ago is forgotten: its status, receipts and folders go, its id is free.",
    )
    keep_terminal_most: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1_000,
        description="Of more that ended, the oldest are forgotten earlier; each costs about 10 kB of memory.",
    )


class ApprovalSection(Section):
    above_bytes: Size | None = Field(
        default=None, description="Plans larger than this wait for `approve`; null never waits."
    )
    above_records: Count | None = Field(
        default=None, description="Plans of more records wait for `approve`; null never waits."
    )
    ttl: Duration = Field(default=86_400_000, description="How long a plan waits for approval before it expires.")


class RatesSection(Section):
    bytes_per_s: Size = Field(default=30_000_000, description="Assumed for the ETA before any rate was measured.")


class QuotasSection(Section):
    enabled: bool = Field(
        default=False,
        description="Hold the lanes of a rate-limited replay by a Kafka client quota as well, at 1.5 times their lease.",
    )


class FaustSection(Section):
    session_timeout: Duration = Field(default=10_000, description="A silent daemon loses leadership after this.")
    heartbeat_interval: Duration = Field(
        default=3_000, description="To the group coordinator; at most a third of session_timeout."
    )
    commit_interval: Duration = Field(
        default=1_000, description="How often offsets of handled control records are committed."
    )
    group: Word | None = Field(
        default=None, description="Consumer group of the control topic; null is recoveryd.<scope>."
    )
    instance_id: Word | None = Field(
        default=None, description="Static membership: unique per daemon, stable over restarts; null is dynamic."
    )

    @model_validator(mode="after")
    def _beats_in_time(self) -> Self:
        if self.heartbeat_interval * 3 > self.session_timeout:
            raise ValueError("heartbeat_interval must be at most a third of session_timeout")
        return self


class SettingsModel(Section):
    """The whole config. `clusters` holds Kafka's own client properties, already resolved to text."""

    clusters: Annotated[dict[Word, dict[str, str]], WithJsonSchema(_CLUSTERS_SCHEMA)] = Field(
        description="Named clusters with Kafka's own client properties; `main` carries recoveryd's topics.", repr=False
    )
    scope: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")] = Field(
        default="default",
        description="Name of this installation, part of transactional ids; two on one cluster need different scopes and prefixes.",
    )
    topics: TopicsSection = Field(default=TopicsSection(), description="recoveryd's own topics.")
    http: HttpSection = Field(default=HttpSection(), description="Health, metrics and API.")
    log: LogSection = Field(default=LogSection(), description="The daemon's own log, on stderr.")
    profiles: dict[Word, Profile] = Field(
        default={"default": Profile()}, description="Named Spark profiles that a replay chooses by `job.profile`."
    )
    chunk: ChunkSection = Field(default=ChunkSection(), description="When lanes commit.")
    lease: LeaseSection = Field(default=LeaseSection(), description="How long lanes go on without the daemon.")
    attempts: AttemptsSection = Field(
        default=AttemptsSection(), description="Spark applications: patience and retries."
    )
    limits: LimitsSection = Field(default=LimitsSection(), description="Of the daemon.")
    approval: ApprovalSection = Field(default=ApprovalSection(), description="Which plans wait for a person.")
    monitor: MonitorSection = Field(default=MonitorSection(), description="Live traffic to watch and to protect.")
    control: ControlSection = Field(
        default=ControlSection(), description="The controller that makes replays yield to live traffic."
    )
    quotas: QuotasSection = Field(default=QuotasSection(), description="The brokers' backstop behind the rate.")
    webhooks: Annotated[dict[Word, WebhookSection], Field(max_length=100)] = Field(
        default={}, description="Webhooks that a watch may name: NAME: {url, secret_file or secret}.", repr=False
    )
    rates: RatesSection = Field(default=RatesSection(), description="Assumptions until measured.")
    prices: PricesSection = Field(default=PricesSection(), description="What forecasts count as cost; 0 is not shown.")
    work_dir: str | None = Field(
        default=None, description="Logs and spec files of attempts, never state; null is $XDG_STATE_HOME/recoveryd."
    )
    faust: FaustSection = Field(default=FaustSection(), description="The stream client of the control topic.")

    @model_validator(mode="before")
    @classmethod
    def _keeps_the_default_profile(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("profiles"), dict):
            return value | {"profiles": {"default": {}} | value["profiles"]}
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for key, cluster in self.monitor.named_clusters:
            if cluster not in self.clusters:
                raise ValueError(f"monitor.{key} names the cluster {cluster!r}, which is not under clusters")
        if self.chunk.max_interval * 2 > self.attempts.transaction_timeout:
            raise ValueError("attempts.transaction_timeout must be at least twice chunk.max_interval")
        return self

"""Every option there is, with its default, its bounds and one line of what it does.

`sources` reads the values (file, environment, command line); a test compares the reference in config/recoveryd.yaml
with this module. Durations are held in ms, sizes in bytes; both are written as text (`5s`, `32MiB`) or as a number of
seconds or bytes.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from recoveryd.settings.kafka_properties import PROPERTIES
from recoveryd.settings.kinds import Count, Duration, Listen, Section, Size, Word, at_most, option
from recoveryd.settings.live import ControlSection, MonitorSection
from recoveryd.settings.prices import PricesSection
from recoveryd.settings.profiles import Profile
from recoveryd.settings.units import ApprovalRuleSection, UnitSection
from recoveryd.settings.webhooks import WebhookSection
from recoveryd.units.approvals import ApprovalRule

# What the file may hold; the model gets texts only, since secrets are read before.
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
    prefix: str = option(
        "recovery.", "Names of recoveryd's own topics start with this.", pattern=r"^[a-zA-Z0-9._-]{1,200}$"
    )
    replication_factor: int = option(
        -1, "Replicas of topics that `recoveryctl topics apply` creates; -1 is the broker's default.", ge=-1, le=32767
    )
    receipts_partitions: int = option(8, "Partitions of the receipts topic when it is created.", ge=1, le=1000)


class HttpSection(Section):
    listen: Listen = option(
        "127.0.0.1:8712",
        "HOST:PORT of health, metrics and API; port 0 takes a free one. In the image RECOVERYD_HTTP__LISTEN wins.",
    )
    logs: bool = option(True, "Whether the API gives the logs of Spark attempts, to whoever reaches it.")

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


class LogSection(Section):
    format: Literal["auto", "console", "json"] = option(
        "auto", "auto | console | json; auto is console on a terminal, else json."
    )
    level: Literal["debug", "info", "warning", "error"] = option("info", "debug | info | warning | error.")
    events: str | None = option(
        None, "A file that gets everything the daemon decides on, for `recoveryctl history`; it holds commands whole."
    )
    events_most: Size = option(256 * 2**20, "The size at which the daemon stops writing to that file.")


class ChunkSection(Section):
    max_bytes: Annotated[Size, at_most(2**30, "1GiB")] = option(32 * 2**20, "A chunk is committed at this size.")
    max_records: Annotated[Count, Field(le=10_000_000)] = option(250_000, "A chunk is committed at this count.")
    max_interval: Annotated[Duration, at_most(30_000, "30s")] = option(
        5_000, "A chunk is committed after this time; at most 30s, it holds the target's last stable offset."
    )


class LeaseSection(Section):
    ttl: Duration = option(30_000, "Without a new directive for this long, lanes slow down and then pause.")
    renew_every: Duration = option(8_000, "How often the daemon renews; well below ttl.")
    floor_bytes_per_s: Size = option(64 * 2**10, "The slowest rate a lane falls to before it pauses.")
    orphan_after: Duration = option(
        900_000, "An application that heard nothing of a daemon for this long ends itself; at least two ttl."
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
    max_failures: int = option(5, "Failures in a row without progress until a recovery fails.", ge=1, le=1000)
    max_failures_per_hour: int = option(
        20, "Failures within an hour, with progress or without, until a recovery fails.", ge=1, le=1000
    )
    max_failed_chunks_per_hour: int = option(
        200, "Chunks that one lane had to do again within an hour until a recovery fails.", ge=1, le=10_000
    )
    backoff_first: Duration = option(1_000, "Wait before the second attempt; doubles with each further one.")
    backoff_max: Duration = option(60_000, "The longest wait between attempts.")
    adopt_wait: Duration = option(10_000, "How long a new daemon waits for a heartbeat before it launches.")
    launch_timeout: Duration = option(90_000, "From launch to the first heartbeat.")
    heartbeat_timeout: Duration = option(20_000, "An attempt silent for this long is dead.")
    transaction_timeout: Annotated[Duration, at_most(900_000, "15m")] = option(
        60_000, "Timeout of the lanes' transactions; brokers allow at most 15m by default."
    )
    stop_wait: Duration = option(600_000, "How long to wait for a foreign transaction before the end of the range.")
    keep_paused: Duration = option(600_000, "The application of a paused recovery is kept alive for this long.")
    stall_after: Duration = option(
        600_000,
        "No progress for this long ends the attempt, and twice in a row the recovery as stalled. A proof, and a lane that "
        "waits for a foreign transaction, have until a minute after this and `stop_wait`.",
    )


class LimitsSection(Section):
    max_active_recoveries: int = option(50, "More are refused with RCV-1020.", ge=1, le=10_000)
    planning_deadline: Duration = option(
        60_000, "A plan is refused with RCV-2011 if a cluster has not answered within this time."
    )
    closing_deadline: Duration = option(
        86_400_000,
        (
            "How long a workflow tries to undo its temporary changes. After that it ends and prints the commands to "
            "undo them."
        ),
    )
    keep_terminal: Duration = option(
        90 * 86_400_000,
        (
            "A recovery or watch that ended this long ago is forgotten: its status, receipts and folders go, its "
            "id is free."
        ),
    )
    keep_terminal_most: int = option(
        1_000,
        (
            "When more than this have ended, the oldest are forgotten earlier; each takes about 10 kB of memory. So are "
            "the oldest workflows when what they noted of partitions takes more than 100 MB."
        ),
        ge=1,
        le=100_000,
    )


class ApprovalSection(Section):
    above_bytes: Size | None = option(None, "Plans larger than this wait for `approve`; null never waits.")
    above_records: Count | None = option(None, "Plans of more records wait for `approve`; null never waits.")
    unknown_readers: bool = option(
        True,
        "Copies to a topic wait for `approve` where nothing says what a record that comes twice does to who reads it.",
    )
    ttl: Duration = option(86_400_000, "How long a plan waits for approval before it expires.")


class RatesSection(Section):
    bytes_per_s: Size = option(30_000_000, "Assumed for the ETA before any rate was measured.")
    remote_bytes_per_s: Size = option(10_000_000, "Most that is expected of records in remote storage.")


class QuotasSection(Section):
    enabled: bool = option(
        False, "Also limit the lanes of a rate-limited replay by a Kafka client quota, at 1.5 times their lease."
    )


class FaustSection(Section):
    session_timeout: Duration = option(10_000, "A silent daemon loses leadership after this.")
    heartbeat_interval: Duration = option(
        3_000, "How often heartbeats go to the group coordinator; at most a third of session_timeout."
    )
    commit_interval: Duration = option(1_000, "How often offsets of handled control records are committed.")
    group: Word | None = option(None, "Consumer group of the control topic; null is recoveryd.<scope>.")
    instance_id: Word | None = option(
        None, "Static membership: unique per daemon, stable over restarts; null is dynamic."
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
    scope: str = option(
        "default",
        "Name of this installation, part of transactional ids; two on one cluster need different scopes and prefixes.",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
    )
    topics: TopicsSection = option(TopicsSection(), "recoveryd's own topics.")
    http: HttpSection = option(HttpSection(), "Health, metrics and API.")
    log: LogSection = option(LogSection(), "The daemon's own log, on stderr.")
    profiles: dict[Word, Profile] = option(
        {"default": Profile()}, "Named Spark profiles that a replay chooses by `job.profile`."
    )
    chunk: ChunkSection = option(ChunkSection(), "When lanes commit.")
    lease: LeaseSection = option(LeaseSection(), "How long lanes go on without the daemon.")
    attempts: AttemptsSection = option(AttemptsSection(), "Spark applications: patience and retries.")
    limits: LimitsSection = option(LimitsSection(), "Limits of the daemon.")
    approval: ApprovalSection = option(ApprovalSection(), "Which plans wait for a person's approval.")
    monitor: MonitorSection = option(MonitorSection(), "Live traffic to watch and to protect.")
    control: ControlSection = option(ControlSection(), "The controller that makes replays yield to live traffic.")
    quotas: QuotasSection = option(QuotasSection(), "Client quotas of the brokers, as a backstop behind the rate.")
    webhooks: Annotated[dict[Word, WebhookSection], Field(max_length=100)] = option(
        {},
        "Webhooks that a watch may name, or that hear of transitions: NAME: {url, secret_file or secret, transitions}.",
        repr=False,
    )
    units: Annotated[dict[Word, UnitSection], Field(max_length=10_000)] = option(
        {}, "What gets recovered: NAME: {kind, group, inputs, outputs, owner, ...}."
    )
    units_dir: str | None = option(None, "A folder with one NAME.yaml per further unit.")
    approvals: Annotated[tuple[ApprovalRuleSection, ...], Field(max_length=1_000)] = option(
        (), "Who approves what is done to units: rules, of which the first that fits decides."
    )
    rates: RatesSection = option(RatesSection(), "Rates that are assumed until they are measured.")
    prices: PricesSection = option(PricesSection(), "What forecasts count as cost; 0 is not shown.")
    work_dir: str | None = option(
        None, "Logs and spec files of attempts, never state; null is $XDG_STATE_HOME/recoveryd."
    )
    faust: FaustSection = option(FaustSection(), "The stream client of the control topic.")

    @property
    def approval_rules(self) -> tuple[ApprovalRule, ...]:
        return tuple(section.rule for section in self.approvals)

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
        for name, unit in self.units.items():
            if unit.cluster not in self.clusters:
                raise ValueError(f"units.{name} names the cluster {unit.cluster!r}, which is not under clusters")
            if unit.control.webhook is not None and unit.control.webhook not in self.webhooks:
                raise ValueError(
                    f"units.{name} names the webhook {unit.control.webhook!r}, which is not under webhooks"
                )
        for number, rule in enumerate(self.approvals):
            unknown = next((name for name in rule.units if "*" not in name and name not in self.units), None)
            if unknown is not None:
                raise ValueError(f"approvals.{number} names the unit {unknown!r}, which is not under units")
        if self.chunk.max_interval * 2 > self.attempts.transaction_timeout:
            raise ValueError("attempts.transaction_timeout must be at least twice chunk.max_interval")
        return self

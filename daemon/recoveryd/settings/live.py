"""Options of live protection: what of live traffic is watched and protected (`monitor:`), and how replays yield to it
(`control:`).

`recoveryd.settings.protecting` makes the rules' parameters from them. The name of a protected signal is unique in its
cluster: rules, metrics and events use it.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from recoveryd.live.look_back import look_back_ms
from recoveryd.settings.kinds import Duration, Section, Size, TopicName, Word, option
from recoveryd.settings.secrets import MASK
from recoveryd.settings.webhooks import check_whole

CANARY_READING: Final = "produce_latency"
DEFAULT_LATENCY_SLO_MS: Final = 200
LOOK_BACK_MOST_MS: Final = 90_000  # of more no sample is fresh: a loop delay is two minutes at most


class MonitoredTopic(Section):
    topic: TopicName = Field(description="Its log ends are sampled as live traffic.")
    cluster: Word = option("main", "A name under `clusters`.")
    group: Annotated[str, Field(min_length=1, max_length=255)] | None = option(
        None, "Consumer group whose lag is sampled too."
    )
    slo: Duration | None = option(None, "The group is protected: replays yield before its time lag is this long.")
    drop_when_unattributable: bool = option(
        False,
        "Stop yielding to the group once it is shown that replays do not cause its lag, until it is well again or has a "
        "quarter more of it. Needs another signal, for instance the canary of its cluster: without one the rate stays.",
    )
    read_committed: bool = option(
        False, "The group reads committed records only, so its lag ends where an open transaction begins."
    )
    max_records_per_s: Annotated[float, Field(gt=0, le=1e12)] | None = option(
        None, "The group reads no partition faster: a larger step of its position skipped records."
    )

    @model_validator(mode="after")
    def _names_the_group_it_speaks_of(self) -> Self:
        if self.slo is not None and self.group is None:
            raise ValueError("slo is the time lag of a consumer group: name it with group")
        if self.group is None and (self.read_committed or self.max_records_per_s is not None):
            raise ValueError("read_committed and max_records_per_s say how a consumer group reads: name it with group")
        return self

    @property
    def is_protected(self) -> bool:
        return self.group is not None and self.slo is not None


class CanarySection(Section):
    enabled: bool | None = option(None, "null: on when anything is protected or latency_slo is set.")
    every: Duration = option(
        100, "A tiny record is produced this often to <prefix>canary.v1, to one partition per broker in turn."
    )
    latency_slo: Duration | None = option(
        None,
        "Replays yield before its acknowledgement takes this long, by an upper bound of the 90th percentile; null is 200ms.",
    )
    clusters: Annotated[tuple[Word, ...], Field(min_length=1, max_length=100)] = option(
        ("main",), "Names under `clusters` whose produce latency is measured."
    )

    @property
    def slo_ms(self) -> int:
        return DEFAULT_LATENCY_SLO_MS if self.latency_slo is None else self.latency_slo


class HealthReading(Section):
    name: Word = Field(description="Name of a health signal on the control topic, a latency with the unit s.")
    cluster: Word = option("main", "A name under `clusters`.")
    slo: Duration = Field(description="Replays yield before its value is this.")


def _without_user(url: str) -> str:
    return re.sub(r"(?<=://)[^/]*@", f"{MASK}@", url)


def _check_server(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = bool(parts.hostname) and parts.port != 0
    except ValueError:  # whose text may hold the password
        is_usable = False
    if not is_usable:
        raise ValueError("must be an address of a server, such as http://prometheus:9090")
    return check_whole(url)


def _check_look_back(query: str) -> str:
    back_ms = look_back_ms(query)
    if back_ms is None:
        raise ValueError("has a range that is no duration")
    if back_ms > LOOK_BACK_MOST_MS:
        raise ValueError(
            f"looks back {back_ms / 1000:g} s, ranges and offset together: {LOOK_BACK_MOST_MS / 1000:g} s at most,"
            " since what it tells is as old as what it looks at"
        )
    return query


class PrometheusReading(Section):
    name: Word = Field(description="What the reading is called in metrics and events.")
    cluster: Word = option("main", "A name under `clusters`.")
    url: Annotated[
        str,
        Field(pattern=r"^https?://[^\s/?#]+[^\s?#]*$", max_length=2_000),
        AfterValidator(_check_server),
        PlainSerializer(_without_user),
    ] = Field(description="Base address of a Prometheus server.", repr=False)
    query: Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(_check_look_back)] = Field(
        description="PromQL that gives one number: a latency in seconds, over a range of 90s at most."
    )
    slo: Duration = Field(description="Replays yield before its value is this.")
    every: Duration = option(15_000, "How often it is asked.")


class MonitorSection(Section):
    interval: Duration = option(5_000, "How often offsets are sampled.")
    topics: Annotated[tuple[MonitoredTopic, ...], Field(max_length=1000)] = option(
        (), "Live topics: names, or mappings of cluster, topic, group and slo."
    )
    canary: CanarySection = option(CanarySection(), "Produce latency as the daemon measures it.")
    health: Annotated[tuple[HealthReading, ...], Field(max_length=100)] = option(
        (), "Health signals to protect: mappings of name, cluster and slo."
    )
    prometheus: Annotated[tuple[PrometheusReading, ...], Field(max_length=100)] = option(
        (), "Latencies to ask a Prometheus for: mappings of name, cluster, url, query, slo and every."
    )

    @model_validator(mode="before")
    @classmethod
    def _names_are_topics(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("topics"), list | tuple):
            return value | {"topics": [{"topic": t} if isinstance(t, str) else t for t in value["topics"]]}
        return value

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        told: set[tuple[str, str]] = {(c, CANARY_READING) for c in self.canary.clusters} if self.is_canary_on else set()
        for reading in self.readings:
            if (reading.cluster, reading.name) in told:
                raise ValueError(f"two readings of the cluster {reading.cluster!r} are called {reading.name!r}")
            told.add((reading.cluster, reading.name))
        readers = [(t.cluster, t.topic, t.group) for t in self.topics if t.group is not None]
        twice = next((r for r in readers if readers.count(r) > 1), None)
        if twice is not None:
            raise ValueError(f"topics names the group {twice[2]!r} on {twice[1]!r} twice")
        return self

    @property
    def readings(self) -> tuple[HealthReading | PrometheusReading, ...]:
        """Latencies that other programs measure."""
        return (*self.health, *self.prometheus)

    @property
    def is_canary_on(self) -> bool:
        if self.canary.enabled is not None:
            return self.canary.enabled
        is_anything = any(t.is_protected for t in self.topics) or self.health or self.prometheus
        return bool(is_anything) or self.canary.latency_slo is not None

    @property
    def named_clusters(self) -> Iterator[tuple[str, str]]:
        """Each cluster that these options name, with the key that names it."""
        yield from (("topics", t.cluster) for t in self.topics)
        yield from (("canary.clusters", c) for c in self.canary.clusters)
        yield from (("health", h.cluster) for h in self.health)
        yield from (("prometheus", p.cluster) for p in self.prometheus)


class ControlSection(Section):
    default_mode: Literal["auto", "controller", "unlimited"] = option(
        "auto",
        "Mode of replays without limits.mode; auto: controller where something is protected, else by their rate.",
    )
    target_pressure: float = option(
        0.6, "Share of its SLO that live traffic may be brought to; 0.4 for critical traffic.", ge=0.1, le=0.95
    )
    max_bytes_per_s: Size = option(100_000_000, "The most that all controlled replays of a cluster may take together.")
    min_bytes_per_s: Size | None = option(
        None, "The floor, below which replays are never slowed; null is 1 % of max_bytes_per_s."
    )
    pause_allowed: bool = option(
        True, "Pause replays when nothing is known of live traffic for 5m, or it stays over its SLO for 11m."
    )
    loop_delay: Duration = option(
        12_000, "Assumed time from harm to the effect of a cut, until it is measured; better too long than too short."
    )
    period: Duration = option(2_000, "How often the controller decides.")
    displacement: float = option(
        1.5, "How much work a live byte is for the brokers, in bytes of a replay.", ge=0, le=100
    )

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.min_bytes_per_s is not None and self.min_bytes_per_s > self.max_bytes_per_s:
            raise ValueError("min_bytes_per_s must be at most max_bytes_per_s")
        if self.period * 2 > self.loop_delay:
            raise ValueError("loop_delay must be at least twice the period")
        return self

    @property
    def floor_bytes_per_s(self) -> float:
        return self.max_bytes_per_s / 100 if self.min_bytes_per_s is None else float(self.min_bytes_per_s)

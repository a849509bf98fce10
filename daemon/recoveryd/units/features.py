"""What of Kafka's protocol recoveryd can make use of beyond what every broker answers, and what it does where a cluster
lacks it. A cluster is judged by the requests that its brokers say they answer (ApiVersions), never by who made it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

Versions = Mapping[int, tuple[int, int]]  # by the key of a request, its lowest and highest version


@dataclass(frozen=True, slots=True)
class Request:
    """One of Kafka's, with the version that is used."""

    key: int
    name: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class Feature:
    """`without`: what recoveryd does where brokers do not answer one of `requests`. Where one `is_needed`, nothing can
    be recovered without it.
    """

    name: str
    requests: tuple[Request, ...]
    without: str
    is_needed: bool = False


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """`lacking`: names of requests that are not answered in the version that is used."""

    feature: Feature
    lacking: tuple[str, ...]

    @property
    def is_there(self) -> bool:
        return not self.lacking


FEATURES: Final = (
    Feature(
        "transactions",
        (Request(22, "InitProducerId"), Request(24, "AddPartitionsToTxn"), Request(26, "EndTxn")),
        "nothing can be copied: records and receipts are committed in one transaction",
        is_needed=True,
    ),
    Feature(
        "client quotas",
        (Request(48, "DescribeClientQuotas"), Request(49, "AlterClientQuotas")),
        "recoveries keep to their rate by themselves, without the brokers behind them; `--quota` of a runbook is refused",
    ),
    Feature(
        "configs one by one",
        (Request(44, "IncrementalAlterConfigs"),),
        "steps that set a config fail before they change anything: longer retention, and changelogs kept for a savepoint",
    ),
    Feature(
        "deleting commits",
        (Request(47, "OffsetDelete"),),
        "offsets can be set, and not taken away: a rollback to a partition without a commit fails and says so",
    ),
    Feature(
        "deleting records",
        (Request(21, "DeleteRecords"),),
        "recoveryd deletes none; applications of Kafka Streams cannot trim their repartition topics",
    ),
    Feature(
        "listing transactions",
        (Request(66, "ListTransactions"),),
        "no savepoint can be taken; whether an application is exactly once only the config says",
    ),
    Feature(
        "who wrote a partition",
        (Request(61, "DescribeProducers"),),
        "whether an application is exactly once only the config says",
    ),
    Feature(
        "sizes on disk",
        (Request(35, "DescribeLogDirs", 1),),
        "bytes of a plan are estimated from a sample of its records",
    ),
    Feature(
        "the first local offset",
        (Request(2, "ListOffsets", 8),),
        "what of a topic lies in remote storage is not told",
    ),
    Feature(
        "types of groups",
        (Request(16, "ListGroups", 5),),
        "groups of newer protocols are not listed",
    ),
    Feature(
        "consumer groups",
        (Request(68, "ConsumerGroupHeartbeat"), Request(69, "ConsumerGroupDescribe")),
        "no group has the newer protocol; those of the classic one are read and set as ever",
    ),
    Feature(
        "streams groups",
        (Request(88, "StreamsGroupHeartbeat"), Request(89, "StreamsGroupDescribe")),
        "no application of Streams has the newer protocol; whose internal topics are whose is told by topologies",
    ),
    Feature(
        "share groups",
        (Request(77, "ShareGroupDescribe", 1), Request(90, "DescribeShareGroupOffsets")),
        "share groups are not looked at",
    ),
)  # fmt: skip

NAMES: Final[Mapping[int, str]] = {r.key: r.name for feature in FEATURES for r in feature.requests}


def judge_features(versions: Versions) -> tuple[FeatureRow, ...]:
    return tuple(FeatureRow(feature, tuple(_lacking(feature, versions))) for feature in FEATURES)


def _lacking(feature: Feature, versions: Versions) -> Iterator[str]:
    for request in feature.requests:
        lowest, highest = versions.get(request.key, (1, 0))
        if not lowest <= request.version <= highest:
            yield request.name if request.key not in versions else f"{request.name} version {request.version}"


def name_of(key: int) -> str:
    """Kafka's name of a request, for a sentence."""
    return NAMES.get(key, f"request {key}")

"""What a daemon that starts demands of clusters other than `main`."""

from collections.abc import Iterable

import pytest

from recoveryd.adapters.kafka import own_topics
from recoveryd.adapters.kafka.clusters import KafkaClusters
from recoveryd.adapters.kafka.own_topics import TopicReport
from recoveryd.errors import OwnTopicProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.topics import OwnTopic, TopicDifference, TopicNames
from tests.contract.harness import EXPECTATIONS

NAMES = TopicNames("p.")
POLICY = TopicDifference(NAMES.receipts, "cleanup.policy", "compact", "delete", True)


@pytest.fixture
async def clusters() -> KafkaClusters:
    nowhere = {"bootstrap.servers": "127.0.0.1:9"}
    return KafkaClusters({"main": nowhere, "dr": nowhere}, NAMES, EXPECTATIONS, lambda: 0)


def found(monkeypatch: pytest.MonkeyPatch, *, main: TopicReport | None = None, dr: TopicReport | None = None) -> None:
    """All topics are as wanted, but these; on `dr` there should be receipts only."""

    def inspect(_admin: object, wanted: Iterable[OwnTopic]) -> tuple[TopicReport, ...]:
        names = [topic.name for topic in wanted]
        other = dr if names == [NAMES.receipts] else main
        return tuple(other if other and other.topic == name else TopicReport(name, exists=True) for name in names)

    monkeypatch.setattr(own_topics, "inspect", inspect)


async def test_a_cluster_without_receipts_may_be_one_from_which_is_only_copied(
    clusters: KafkaClusters, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found(monkeypatch, dr=TopicReport(NAMES.receipts, exists=False))
    await clusters.check_own_topics()
    [told] = [line.getMessage() for line in caplog.records if line.name == "recoveryd.kafka"]
    assert told.startswith(f"On cluster dr {NAMES.receipts} does not exist. ")


async def test_receipts_that_would_be_deleted_are_refused_wherever_they_are(
    clusters: KafkaClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, dr=TopicReport(NAMES.receipts, exists=True, differences=(POLICY,)))
    with pytest.raises(OwnTopicProblem) as refused:
        await clusters.check_own_topics()
    assert refused.value.code is Code.OWN_TOPIC_WRONG


async def test_a_topic_that_main_lacks_is_missing(clusters: KafkaClusters, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, main=TopicReport(NAMES.receipts, exists=False))
    with pytest.raises(OwnTopicProblem) as refused:
        await clusters.check_own_topics()
    assert refused.value.problems == (f"{NAMES.receipts} does not exist.",)

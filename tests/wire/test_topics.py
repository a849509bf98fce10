"""The own topics are exactly those of the contract, and differences on a broker are reported."""

import pytest

from recoveryd.wire.topics import OwnTopic, TopicDifference, TopicNames, differences, own_topics

DAY_MS = 86_400_000


def test_the_topics_of_the_contract() -> None:
    topics = {topic.name: topic for topic in own_topics(TopicNames())}
    kept = {
        name: (topic.partitions, topic.configs["cleanup.policy"], topic.configs.get("retention.ms"))
        for name, topic in topics.items()
    }
    assert kept == {
        "recovery.control.v1": (1, "delete", str(14 * DAY_MS)),
        "recovery.status.v1": (1, "compact", None),
        "recovery.events.v1": (1, "delete", str(90 * DAY_MS)),
        "recovery.directives.v1": (1, "compact", None),
        "recovery.progress.v1": (1, "delete", str(DAY_MS)),
        "recovery.receipts.v1": (8, "compact", None),
        "recovery.control.v1.dlq": (1, "delete", str(30 * DAY_MS)),
        "recovery.canary.v1": (1, "delete", str(600_000)),
    }
    assert topics["recovery.control.v1"].configs["message.timestamp.type"] == "LogAppendTime"
    assert [name for name, topic in topics.items() if topic.on_targets] == ["recovery.receipts.v1"]
    assert [name for name, topic in topics.items() if not topic.is_required] == ["recovery.canary.v1"]
    assert [name for name, topic in topics.items() if topic.per_broker] == ["recovery.canary.v1"]


def test_names_have_the_prefix_and_are_all_listed() -> None:
    names = TopicNames("x-")
    assert names.all == tuple(topic.name for topic in own_topics(names))
    assert all(name.startswith("x-") for name in names.all)


STATUS = OwnTopic("s", 1, {"cleanup.policy": "compact", "segment.ms": "5"})
RECEIPTS = OwnTopic("r", 8, {"cleanup.policy": "compact"}, on_targets=True)
PER_BROKER = OwnTopic("b", 1, {}, is_required=False, per_broker=True)
CANARY = OwnTopic("c", 1, {"cleanup.policy": "delete"}, is_required=False)


@pytest.mark.parametrize(
    ("wanted", "partitions", "configs", "expected"),
    [
        (STATUS, 1, {"cleanup.policy": "compact", "segment.ms": "5", "other": "x"}, ()),
        (STATUS, 1, {}, ()),
        (STATUS, 1, {"segment.ms": "6"}, (TopicDifference("s", "segment.ms", "5", "6", fatal=False),)),
        (STATUS, 1, {"cleanup.policy": "delete"}, (TopicDifference("s", "cleanup.policy", "compact", "delete", fatal=True),)),
        (STATUS, 3, {}, (TopicDifference("s", "partitions", "1", "3", fatal=True),)),
        (CANARY, 1, {"cleanup.policy": "compact"}, (TopicDifference("c", "cleanup.policy", "delete", "compact", fatal=False),)),
        (CANARY, 2, {}, (TopicDifference("c", "partitions", "1", "2", fatal=False),)),
        (PER_BROKER.on_brokers(3), 1, {}, (TopicDifference("b", "partitions", "3", "1", fatal=False),)),
        (PER_BROKER.on_brokers(3), 5, {}, ()),
        (PER_BROKER.on_brokers(0), 1, {}, ()),
        (STATUS.on_brokers(3), 1, {}, ()),
        (RECEIPTS, 3, {}, (TopicDifference("r", "partitions", "8", "3", fatal=False),)),
    ],
)  # fmt: skip
def test_differences(
    wanted: OwnTopic, partitions: int, configs: dict[str, str], expected: tuple[TopicDifference, ...]
) -> None:
    assert differences(wanted, partitions, configs) == expected

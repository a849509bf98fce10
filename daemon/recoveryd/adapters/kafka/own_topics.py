"""recoveryd's own topics on a cluster: check them, create what is missing, try whether they can be written.

What they should be stands in `recoveryd.wire.topics`. Nothing here changes or deletes a topic that exists.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.canary_leaders import CanaryLeaders, look
from recoveryd.adapters.kafka.client import Properties, make_transactional_producer, problem
from recoveryd.adapters.kafka.topic_admin import await_topic, create, describe, read_configs
from recoveryd.errors import ClusterProblem, OwnTopicProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.topics import PARTITIONS, OwnTopic, TopicDifference, differences
from recoveryd_jobs.shared.meeting import meet

LEAD_NONE = "brokers that lead none"
_FIND_S = 25.0  # of a cluster where nobody answers this is told after a bit more
_TIMEOUT_S = 45.0  # a broker that answered once may take long to make topics


@dataclass(frozen=True, slots=True)
class TopicReport:
    """What was found for one own topic. `created` just now; else its `differences` from what is wanted. `leaders`: of
    one of which each broker shall lead a partition, where they were asked for.
    """

    topic: str
    exists: bool
    created: bool = False
    differences: tuple[TopicDifference, ...] = ()
    is_required: bool = True
    leaders: CanaryLeaders | None = None


def inspect(admin: AdminClient, wanted: Iterable[OwnTopic]) -> tuple[TopicReport, ...]:
    """Compare; changes nothing. Raises `ClusterProblem`."""
    topics = list(wanted)
    shapes = describe(admin, [t.name for t in topics], _FIND_S)  # finds the controller, which is asked next
    topics = _sized(admin, topics)
    reports = []
    for topic in topics:
        shape = shapes[topic.name]
        if shape is None:
            reports.append(TopicReport(topic.name, exists=False, is_required=topic.is_required))
            continue
        found = differences(topic, shape.partitions, read_configs(admin, topic.name, _TIMEOUT_S))
        reports.append(TopicReport(topic.name, exists=True, differences=found, is_required=topic.is_required))
    return tuple(reports)


def inspect_leaders(admin: AdminClient, wanted: Iterable[OwnTopic]) -> tuple[TopicReport, ...]:
    """As `inspect`, and who leads topics of which each broker shall lead a partition: for people, who can mend it."""
    topics = list(wanted)
    reports = zip(topics, inspect(admin, topics), strict=True)
    return tuple(_with_leaders(admin, r) if topic.per_broker and r.exists else r for topic, r in reports)


def _with_leaders(admin: AdminClient, report: TopicReport) -> TopicReport:
    leaders, found = _leaders(admin, report.topic), report.differences
    are_enough = all(difference.setting != PARTITIONS for difference in found)
    if leaders is not None and leaders.silent and are_enough:
        silent = ", ".join(map(str, leaders.silent))
        found = (TopicDifference(report.topic, LEAD_NONE, "none", silent, fatal=False), *found)
    return replace(report, differences=found, leaders=leaders)


def _leaders(admin: AdminClient, topic: str) -> CanaryLeaders | None:
    """Raises `ClusterProblem`."""
    try:
        return look(admin, topic, _TIMEOUT_S)
    except KafkaException as error:
        raise problem(error, f"ask who leads {topic}", "Describe", topic) from error


def apply(admin: AdminClient, wanted: Iterable[OwnTopic], replication_factor: int) -> tuple[TopicReport, ...]:
    """Create what is missing and report what differs. Doing it twice, or in two places at once, is harmless."""
    topics = list(wanted)
    before = inspect(admin, topics)
    made = set()
    for topic, report in zip(_sized(admin, topics), before, strict=True):
        if not report.exists and create(
            admin, topic.name, topic.partitions, replication_factor, topic.configs, _TIMEOUT_S
        ):
            made.add(topic.name)
    for name in made:
        await_topic(admin, name, _TIMEOUT_S)
    after = inspect_leaders(admin, topics)
    return tuple(replace(report, created=report.topic in made) for report in after)


def _sized(admin: AdminClient, wanted: Iterable[OwnTopic]) -> list[OwnTopic]:
    """The topics with the partitions that they have on this cluster. Raises `ClusterProblem`."""
    topics = list(wanted)
    if not any(topic.per_broker for topic in topics):
        return topics
    try:
        brokers = len(admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1.0).nodes)
    except KafkaException as error:
        raise problem(error, "ask which brokers there are") from error
    except TimeoutError as error:
        raise ClusterProblem("Could not ask which brokers there are: no answer") from error
    return [topic.on_brokers(brokers) for topic in topics]


def check(admin: AdminClient, wanted: Iterable[OwnTopic], *, may_miss: bool = False) -> tuple[str, ...]:
    """Raises `OwnTopicProblem` with a sentence for each required topic that is missing or wrong in a way that loses
    truth or order. With `may_miss` those that are missing are told only.
    """
    reports = inspect(admin, wanted)
    missing = [f"{r.topic} does not exist." for r in reports if not r.exists and r.is_required]
    wrong = [told(d) for r in reports for d in r.differences if d.fatal]
    refused = [] if may_miss else missing
    if wrong or refused:
        code = Code.OWN_TOPIC_MISSING if refused else Code.OWN_TOPIC_WRONG
        raise OwnTopicProblem([*refused, *wrong], code=code)
    return tuple(missing)


def check_width(admin: AdminClient, wanted: Iterable[OwnTopic], timeout_s: float) -> None:
    """Raises `OwnTopicProblem`, as `check` does, for topics that must have one partition and have more by now. Nothing
    is said of one that is not there or was not told of. Raises `ClusterProblem` where the cluster tells nothing.
    """
    single = [topic for topic in wanted if topic.is_single]
    shapes = describe(admin, [topic.name for topic in single], timeout_s)
    found = [(topic, shape.partitions) for topic in single if (shape := shapes[topic.name]) is not None]
    wrong = [told(d) for topic, count in found if count > 1 for d in differences(topic, count, {})]
    if wrong:
        raise OwnTopicProblem(wrong, code=Code.OWN_TOPIC_WRONG)


def told(difference: TopicDifference) -> str:
    return f"{difference.topic} has {difference.setting}={difference.found}, it must be {difference.wanted}."


def write_probe(properties: Properties, transactional_id: str, topics: Iterable[str]) -> dict[str, str | None]:
    """Try to write one record to each topic in a transaction that is then aborted; None = allowed, else why not.

    A read_committed reader never sees the probe; so never probe the control topic, whose reader sees everything.
    `transactional_id` must be one that nobody uses: probing with the journal's would end the daemon.
    """
    return {topic: _probe(properties, f"{transactional_id}.{topic}", topic) for topic in topics}


def _probe(properties: Properties, transactional_id: str, topic: str) -> str | None:
    producer = make_transactional_producer(properties, transactional_id, 10_000)
    failures: list[ClusterProblem] = []
    try:
        meet(producer, topic, _TIMEOUT_S)
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(
            topic,
            value=b"{}",
            key=b"_probe",
            on_delivery=lambda error, _message: (
                failures.append(problem(error, f"write to {topic}", "Write", topic)) if error else None
            ),
        )
        undelivered = producer.flush(_TIMEOUT_S)
        producer.abort_transaction(_TIMEOUT_S)
    except KafkaException as error:
        if failures:  # a transaction that holds nothing cannot be ended: the refusal of its record is what counts
            return failures[0].message
        return problem(error, f"write to {topic}", "Write", topic, transactional_id).message
    finally:
        producer.purge()
        with contextlib.suppress(KafkaException):  # it has said what it had to say
            producer.close()
    if failures:
        return failures[0].message
    return f"Could not write to {topic}: no answer within {_TIMEOUT_S:.0f} s" if undelivered else None

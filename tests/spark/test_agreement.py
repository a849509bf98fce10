"""Which partitions a topic has, and who leads them, is what all brokers tell: one whose metadata are late must not hide
what others wrote.
"""

import time
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from recoveryd_jobs.contract import LaneSpec, PartitionRange, TargetSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.shared.agreement import NotAgreed, Sight, agree, sight_of
from recoveryd_jobs.shared.leaders import MAKES_NO_TOPIC
from recoveryd_jobs.topics import LogBounds, Topic
from recoveryd_jobs.verify import plan
from recoveryd_jobs.verify.reader import Range
from tests.builders.copying import Cluster
from tests.patience import patient_s
from tests.spark.test_contract import SPEC


@dataclass
class Brokers:
    """`told`: what each broker tells each time it is asked, the last for ever; None = no answer. `described`: the
    brokers that describe the topic, one after the other. `known`: whom each broker knows, all where it is not said.
    """

    told: dict[int, list[int | None]]
    described: list[int] = field(default_factory=lambda: [1])
    known: dict[int, list[int]] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def describe(self) -> int:
        broker = self.described.pop(0) if len(self.described) > 1 else self.described[0]
        found = self.told[broker][0]
        assert found is not None
        return found

    def ask(self, address: str) -> Sight | None:
        broker = int(address.removeprefix("b") or 1)
        self.asked.append(broker)
        answers = self.told[broker]
        width = answers.pop(0) if len(answers) > 1 else answers[0]
        knows = {other: f"b{other}" for other in self.known.get(broker, list(self.told))}
        return None if width is None else Sight(broker, knows, tuple(range(width)))

    def agree(self, patience_s: float = 0.0, *, silent: bool = False) -> int:
        return agree(self.describe, lambda width: width, self.ask, time.monotonic() + patience_s, silent=silent)


def test_one_broker_is_asked_once() -> None:
    brokers = Brokers({1: [3]})
    assert (brokers.agree(), brokers.asked) == (3, [1])


def test_every_broker_is_asked() -> None:
    brokers = Brokers({1: [3], 2: [3], 3: [3]})
    assert (brokers.agree(), sorted(brokers.asked)) == (3, [1, 2, 3])


def test_a_broker_that_is_late_describes_the_topic_and_the_others_know_better() -> None:
    brokers = Brokers({1: [2, 2, 3], 2: [3]})
    assert brokers.agree(patient_s(60.0)) == 3


def test_a_broker_that_is_late_is_waited_for() -> None:
    brokers = Brokers({1: [3], 2: [2, 0, 3]})
    assert brokers.agree(patient_s(60.0)) == 3
    assert brokers.asked.count(2) == 3


def test_a_broker_that_stays_behind_is_named() -> None:
    with pytest.raises(NotAgreed, match="broker 2 tells 2 partitions, another one 3"):
        Brokers({1: [3], 2: [2]}).agree()


def test_a_broker_that_only_another_one_knows_is_asked_too() -> None:
    brokers = Brokers({1: [2], 2: [2], 3: [3]}, known={1: [1, 2]})
    with pytest.raises(NotAgreed, match="broker 3 tells 3 partitions, another one 2"):
        brokers.agree()


def test_a_broker_that_does_not_answer_may_know_more_and_is_named() -> None:
    with pytest.raises(NotAgreed, match="broker 2 at b2 does not tell"):
        Brokers({1: [3], 2: [None]}).agree()
    assert Brokers({1: [3], 2: [None, 3]}).agree(patient_s(60.0)) == 3


def test_a_plan_does_without_a_broker_that_does_not_answer_and_not_without_one_that_differs() -> None:
    assert Brokers({1: [3], 2: [None], 3: [3]}).agree(silent=True) == 3
    with pytest.raises(NotAgreed, match="broker 3 tells 4"):
        Brokers({1: [3], 2: [None], 3: [4]}).agree(silent=True)


def test_no_topic_is_nothing_to_agree_about() -> None:
    assert agree(lambda: None, lambda _nothing: None, lambda _address: pytest.fail("asked"), 0.0) is None


def test_a_broker_is_asked_again_where_another_one_answered_for_it() -> None:
    """The library chooses whom it asks."""
    answers = iter([1, 3, 1, 2])

    def ask(_address: str) -> Sight:
        return Sight(next(answers), {1: "b1", 2: "b2", 3: "b3"}, (1, 2))

    assert agree(lambda: 2, lambda width: width, ask, 0.0) == 2
    assert next(answers, None) is None


def test_who_led_a_partition_before_has_to_know_it_no_longer_does() -> None:
    """Its end of the partition would be an old one."""
    told = {"": ((1, 1), (2, 1)), "b2": ((2, 1),)}
    left = {address: list(answers) for address, answers in told.items()}

    def ask(address: str) -> Sight:
        answers = left[address]
        leaders = answers.pop(0) if len(answers) > 1 else answers[0]
        return Sight(2 if address else 1, {1: "b1", 2: "b2"}, leaders)

    with pytest.raises(NotAgreed, match="broker 2 tells that 2 leads partition 0, broker 1 tells 1"):
        agree(lambda: 2, lambda width: width, ask, 0.0)
    assert agree(lambda: 2, lambda width: width, ask, 0.0) == 2


@pytest.fixture
def nine() -> tuple[dict[int, str], Producer]:
    """The addresses of nine brokers of the library's own, which speak the protocol and live as long as the client, and
    have one topic `t`.
    """
    producer = Producer({"bootstrap.servers": "nowhere:1", "test.mock.num.brokers": 9, "log_level": 0})
    producer.produce("t", b"")
    assert producer.flush(patient_s(60.0)) == 0
    found = producer.list_topics("t", timeout=60)
    return {broker: f"{at.host}:{at.port}" for broker, at in found.brokers.items()}, producer


def test_the_library_asks_whom_it_likes_and_still_every_broker_is_heard(
    nine: tuple[dict[int, str], Producer],
) -> None:
    addresses, _ = nine
    heard = set()

    def ask(address: str) -> Sight | None:
        client = AdminClient({"bootstrap.servers": address or addresses[1], "log_level": 0, **MAKES_NO_TOPIC})
        sight = sight_of(client, "t")
        assert sight is not None
        assert sight.brokers == addresses
        heard.add(sight.broker)
        return sight

    width = agree(lambda: 4, lambda width: width, ask, time.monotonic() + patient_s(60.0))
    assert (width, heard) == (4, set(addresses))


def test_nobody_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_jobs.shared.agreement._ASK_S", 0.1)
    assert sight_of(AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), "t") is None


def late_target(described: list[int], told: dict[int, int]) -> Topic:
    """A target of which brokers know different numbers of partitions. `described`: what is told first, and then for
    ever.
    """
    brokers = {broker: SimpleNamespace(host="b", port=broker) for broker in told}

    def describe(topics: Any, **_more: object) -> dict[str, "Future[Any]"]:
        width = described.pop(0) if len(described) > 1 else described[0]
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(topic_id="o", partitions=[None] * width))
        return {"out": answer}

    def beginning_at(address: str) -> Any:
        broker = int(address.partition(":")[2] or 1)
        topics = {"out": SimpleNamespace(partitions=dict.fromkeys(range(told[broker]), SimpleNamespace(leader=1)))}
        found = SimpleNamespace(orig_broker_id=broker, orig_broker_name="", brokers=brokers, topics=topics)
        return SimpleNamespace(list_topics=lambda _topic, **_more: found)

    asker = SimpleNamespace(
        admin=SimpleNamespace(describe_topics=describe),
        beginning_at=beginning_at,
        renew=lambda: None,
        shut_out=lambda: "",
    )
    beside = SimpleNamespace(asker=asker)
    return Topic(TargetSpec("main", "out", "o", 2, {}), "target", "c", beside=beside)  # type: ignore[arg-type]


def planned(monkeypatch: pytest.MonkeyPatch, target: Topic, patience_s: float) -> plan.ProofPlan:
    """The plan of a proof of a copy into two partitions, each of which holds seven records."""
    bounds = LogBounds(0, 7, 7)
    lanes = (LaneSpec(0, (PartitionRange(0, 5, 10),)),)
    spec = replace(SPEC, verify="digest", lanes=lanes, target=TargetSpec("main", "out", "o", 2, {}))
    monkeypatch.setattr(plan, "PATIENCE_S", patience_s)
    monkeypatch.setattr(plan, "make_topics", lambda _spec: (target, target))
    monkeypatch.setattr(
        Topic, "settings", lambda _topic, _deadline_s: SimpleNamespace(is_stamped=False, is_compacted=False)
    )
    monkeypatch.setattr(plan, "check_topics", lambda _topics: None)
    monkeypatch.setattr(plan, "_bounds", lambda _topic, partitions: dict.fromkeys(partitions, bounds))
    return plan.make_plan(spec, is_whole=True)


def test_a_proof_reads_a_partition_that_the_broker_it_asked_first_does_not_know_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = planned(monkeypatch, late_target([2, 3], {1: 3, 2: 3}), patient_s(60.0))
    assert (found.width, found.targets[-1]) == (3, Range(2, 0, 7))


def test_a_proof_has_no_verdict_while_a_broker_knows_another_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match="broker 2 tells 3 partitions, another one 2") as raised:
        planned(monkeypatch, late_target([2], {1: 2, 2: 3}), 0.0)
    assert raised.value.code == "target_unavailable"


def test_a_partition_that_was_added_under_the_proof_is_read_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where it holds something."""
    at_first = planned(monkeypatch, late_target([2], {1: 2, 2: 2}), 0.0)
    ends = {2: LogBounds(0, 0, 0), 3: LogBounds(1, 5, 5)}
    monkeypatch.setattr(plan, "_make_topic", lambda _spec, _side: late_target([4], {1: 4, 2: 4}))
    monkeypatch.setattr(plan, "_bounds", lambda _topic, partitions: {p: ends[p] for p in partitions})
    target = TargetSpec("main", "out", "o", 2, {})
    ours = replace(SPEC, target=target)
    rest = plan.look_again(ours, at_first)
    assert (rest.sources, rest.targets, rest.notes) == ((), (Range(3, 1, 5),), [])
    assert plan.share_rest(rest, 2) == [plan.ProofShare(2, 3, (), (Range(3, 1, 5),), 2)]

    shared = plan.look_again(replace(ours, target=replace(target, exclusive=False)), at_first)
    assert (shared.targets, plan.share_rest(shared, 2)) == ((), [])
    assert shared.notes == ["others wrote to 1 partitions that the copy does not write to: 4 offsets in partition 3"]

    ranged = replace(ours, receipts_topic="", target=replace(target, stops=((0, 7), (1, 7))))
    assert plan.look_again(ranged, at_first).notes == [
        "not compared, because the target got it after the plan: 4 offsets in partition 3"
    ]
    followed = replace(ours, source=replace(ours.source, partitions=3))
    assert plan.look_again(followed, at_first).notes == [
        "not copied, because the source got it too late: 4 offsets in partition 3"
    ]
    assert plan.look_again(followed, at_first).uncopied == {3: 4}
    a_part = replace(ranged, target=replace(target, stops=((1, 7),)))
    assert plan.look_again(a_part, at_first).notes == []


@pytest.mark.broker
def test_a_question_about_a_topic_that_is_gone_does_not_make_it(cluster: Cluster) -> None:
    client = AdminClient({**cluster.client, **MAKES_NO_TOPIC})
    found = sight_of(client, f"{cluster.unique}nothing")
    assert found is not None
    assert (found.broker in found.brokers, found.leaders) == (True, ())
    assert f"{cluster.unique}nothing" not in cluster.admin.list_topics(timeout=60).topics

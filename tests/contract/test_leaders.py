"""A client knows who leads a topic before it is asked for offsets, and asking makes no topic."""

import time
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from recoveryd.adapters.kafka.client import make_admin
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.errors import ClusterProblem
from recoveryd_jobs.clients import START, start_offset_query
from recoveryd_jobs.clients import make_admin as make_admin_of_jobs
from recoveryd_jobs.shared.leaders import MAKES_NO_TOPIC, knows_leaders, learn_leaders
from recoveryd_sandbox.topics import make_topics
from tests.patience import patient_s

pytestmark = pytest.mark.broker


class Told(AdminClient):
    """Notes what it is asked."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__({"bootstrap.servers": bootstrap, **MAKES_NO_TOPIC})
        self.asked: list[str] = []

    def list_topics(self, *args: Any, **more: Any) -> Any:
        self.asked.append("leaders")
        return super().list_topics(*args, **more)

    def list_offsets(self, *args: Any, **more: Any) -> Any:  # type: ignore[override]
        self.asked.append("offsets")
        return super().list_offsets(*args, **more)


@pytest.fixture
def topic(bootstrap: str, unique: str) -> str:
    admin, name = make_admin({"bootstrap.servers": bootstrap}), f"{unique}-leaders"
    make_topics(admin, [NewTopic(name, 3)])
    read_offsets(admin, [(name, p) for p in range(3)], LATEST, patient_s(30))
    return name


def test_a_new_client_learns_the_leaders_first_and_once(bootstrap: str, topic: str) -> None:
    admin = Told(bootstrap)
    places = [(topic, p) for p in range(3)]
    assert read_offsets(admin, places, EARLIEST, patient_s(30)) == {0: 0, 1: 0, 2: 0}
    assert read_offsets(admin, places, LATEST, patient_s(30)) == {0: 0, 1: 0, 2: 0}
    assert admin.asked == ["leaders", "offsets", "offsets"]


def test_what_is_known_is_asked_again_after_a_while(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recoveryd_jobs.shared.leaders._KNOWN_S", 0.2)
    admin = Told(bootstrap)
    learn_leaders(admin, topic, patient_s(30))
    time.sleep(0.3)
    assert not knows_leaders(admin, topic)
    learn_leaders(admin, topic, patient_s(30))
    assert admin.asked == ["leaders", "leaders"]


def test_a_client_remembers_a_bounded_number_of_topics(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recoveryd_jobs.shared.leaders._TOPICS_MOST", 1)
    admin, other = Told(bootstrap), f"{topic}-other"
    make_topics(admin, [NewTopic(other, 1)])
    read_offsets(admin, [(other, 0)], LATEST, patient_s(30))
    learn_leaders(admin, other, patient_s(30))
    learn_leaders(admin, topic, patient_s(30))
    assert (knows_leaders(admin, topic), knows_leaders(admin, other)) == (True, False)


def test_a_topic_that_is_not_there_is_no_topic_known_and_none_is_made(bootstrap: str, unique: str) -> None:
    admin, name = make_admin({"bootstrap.servers": bootstrap}), f"{unique}-none"
    with pytest.raises(ClusterProblem):  # as long as asked for: a topic that was made just now is not known everywhere
        read_offsets(admin, [(name, 0)], LATEST, 1.0)
    assert not knows_leaders(admin, name)
    of_jobs = make_admin_of_jobs({"bootstrap.servers": bootstrap}, "none")
    learn_leaders(of_jobs, name, patient_s(30))
    where = TopicPartition(name, 0)
    assert start_offset_query(of_jobs, [where], START)[where].exception(patient_s(30)) is not None
    assert name not in admin.list_topics(timeout=patient_s(30)).topics

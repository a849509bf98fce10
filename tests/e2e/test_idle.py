"""A daemon with nothing to do, beside applications that work: what it leaves alone, on a real broker."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.e2e.clients import client, commit
from tests.e2e.data import fill_plain
from tests.e2e.log_reader import whole_log
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

PARTITIONS, EACH, LOOKS = 3, 200, 10
ASK_S, DEADLINE_S = 60.0, 180.0


class Beside:
    """What an application has on the cluster: its data, and its groups."""

    def __init__(self, bootstrap: str, stack: Stack) -> None:
        self._admin, self._stack, self._bootstrap = AdminClient(client(bootstrap)), stack, bootstrap
        self.topic, self.group = f"{stack.mark}-live", f"{stack.mark}-app"

    def groups(self) -> set[str]:
        """All of the cluster but those of the daemon itself."""
        listed = self._admin.list_consumer_groups(request_timeout=ASK_S).result(ASK_S)
        assert not listed.errors
        scope = self._stack.prefix.rstrip(".")
        return {group.group_id for group in listed.valid if scope not in group.group_id}

    def look(self) -> tuple[list[str], dict[int, int], dict[str, dict[int, tuple[int, int]]]]:
        """Members, offsets and data."""
        return (self.members(), self.committed(), self.ends())

    def members(self) -> list[str]:
        told = self._admin.describe_consumer_groups([self.group], request_timeout=ASK_S)[self.group].result(ASK_S)
        return sorted(member.member_id for member in told.members)

    def committed(self) -> dict[int, int]:
        asked = Consumer({**client(self._bootstrap), "group.id": self.group})
        found = asked.committed([TopicPartition(self.topic, p) for p in range(PARTITIONS)], timeout=ASK_S)
        asked.close()
        return {each.partition: each.offset for each in found}

    def ends(self) -> dict[str, dict[int, tuple[int, int]]]:
        """Of every topic that is neither the daemon's nor Kafka's own."""
        names = self._admin.list_topics(timeout=ASK_S).topics
        data = (name for name in names if not name.startswith((self._stack.prefix, "__")) and self._stack.mark in name)
        return {name: whole_log(self._bootstrap, name) for name in data}


@pytest.mark.scenario("S-CASTLE-2")
def test_an_idle_daemon_joins_no_group_and_writes_to_no_topic_of_others(bootstrap: str, stack: Stack) -> None:
    beside = Beside(bootstrap, stack)
    fill_plain(bootstrap, beside.topic, PARTITIONS, EACH)
    times = {"session.timeout.ms": 300_000, "max.poll.interval.ms": 3_600_000}  # a member stays one
    member = Consumer({**client(bootstrap), "group.id": beside.group, "enable.auto.commit": False, **times})
    commit(member, [TopicPartition(beside.topic, p, EACH - p) for p in range(PARTITIONS)])
    member.subscribe([beside.topic])
    wait_for(lambda: (member.poll(0.2), member.assignment())[1], DEADLINE_S)
    groups, before = beside.groups(), beside.look()
    assert beside.topic in before[2]
    assert beside.group in groups

    def assert_left_alone() -> None:
        now = beside.groups()
        assert now - groups == set()  # those of others that were there may go meanwhile
        assert beside.group in now
        assert beside.look() == before

    unit = {"kind": "group", "group": beside.group, "inputs": [beside.topic], "retention_objective": "1h"}
    settings = {
        "monitor": {"topics": [{"topic": beside.topic, "group": beside.group}], "canary": {"enabled": True}},
        "units": {"app": unit},
    }
    with stack.running(settings=settings) as daemon:
        canary = f"{stack.prefix}canary.v1"
        begun = sum(high for _, high in whole_log(bootstrap, canary).values())

        def has_looked_around() -> bool:
            """Its canary wrote many times, and the lag of the group that it watches was seen."""
            member.poll(0.0)
            wrote = sum(high for _, high in whole_log(bootstrap, canary).values()) - begun
            return wrote >= LOOKS and f'recoveryd_lag_records{{group="{beside.group}"' in daemon.get("/metrics")[1]

        wait_for(has_looked_around, DEADLINE_S, every_s=0.5)
        assert_left_alone()
    assert_left_alone()
    member.close()

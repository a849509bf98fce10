"""Who reads the target of a copy, when a part of the groups does not tell."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from recoveryd.adapters.kafka import target_readers
from recoveryd.adapters.kafka.target_readers import read_readers
from recoveryd.adapters.workers import Workers
from recoveryd.settings.kafka_properties import ClientAccess


class Groups:
    """None has offsets. `reads` has a member on the topic; `silent` cannot be described."""

    def list_consumer_groups(self, **_: object) -> Future[Any]:
        names = ("reads", "silent", "other")
        return done(SimpleNamespace(valid=[SimpleNamespace(group_id=name) for name in names], errors=[]))

    def describe_consumer_groups(self, groups: Sequence[str], **_: object) -> dict[str, Future[Any]]:
        return {group: self._described(group) for group in groups}

    def _described(self, group: str) -> Future[Any]:
        if group == "silent":
            answer: Future[Any] = Future()
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
            return answer
        held = [SimpleNamespace(topic="t" if group == "reads" else "another", partition=0)]
        assignment = SimpleNamespace(topic_partitions=held)
        member = SimpleNamespace(
            member_id="m", client_id="c", host="/h", group_instance_id=None, assignment=assignment
        )  # fmt: skip
        return done(SimpleNamespace(members=[member], state=ConsumerGroupState.STABLE))


class WithoutOffsets:
    async def newer_groups(self) -> dict[str, str]:
        return {}

    async def committed(self, _group: str, _partitions: object) -> list[object]:
        return []


def done(value: object) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_result(value)
    return answer


async def test_a_group_that_cannot_be_described_is_not_one_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[WithoutOffsets]:
        yield WithoutOffsets()

    monkeypatch.setattr(target_readers, "connected", connected)
    admin: Any = Groups()
    workers = Workers("test", 1)
    try:
        groups, problems = await read_readers(admin, ClientAccess("127.0.0.1:9"), workers, "t", [0])
    finally:
        workers.close()
    assert groups == ("reads",)
    [said] = problems
    assert said.startswith(
        "1 groups did not tell whether their members read t, the first is silent: Could not describe"
    )

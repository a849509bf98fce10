"""Finds replicas, waits until all are in sync, and moves leaders as an operator's tools do: reassign, then elect."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.settings.kafka_properties import Tls, make_ssl_context
from recoveryd_sandbox.broker import Broker
from tests.e2e.clients import client
from tests.e2e.log_reader import QUIET, insist
from tests.e2e.processes import wait_for
from tests.patience import until_it_works

_TIMEOUT_S = 120.0
_WHOLE_DEADLINE_S = 120.0
_START_S = 240.0


def layout(bootstrap: str, topic: str) -> list[Any]:
    """The partitions in order, each with `leader`, `replicas` and `isr`."""
    admin = AdminClient({**client(bootstrap), **QUIET})
    asked = TopicCollection([topic])
    found = insist(lambda: admin.describe_topics(asked, request_timeout=_TIMEOUT_S)[topic].result(_TIMEOUT_S))
    return list(found.partitions)


def await_whole(bootstrap: str, *topics: str) -> None:
    """Wait until every replica of these topics is in sync, as an operator does before restarting the next broker."""
    left: list[str] = []

    def is_whole() -> bool:
        try:
            left[:] = [topic for topic in topics if not _in_sync(layout(bootstrap, topic))]
        except KafkaException as error:
            left[:] = [str(error)]
        return not left

    wait_for(is_whole, _WHOLE_DEADLINE_S, lambda: f"not in sync: {left}")


def _in_sync(partitions: Iterable[Any]) -> bool:
    return all(p.leader is not None and len(p.isr) == len(p.replicas) for p in partitions)


def start_all(brokers: Iterable[Broker]) -> None:
    """Start the brokers that do not run, at the same time."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda broker: broker.start(_START_S), brokers))


def move_leaders(bootstrap: str, topic: str) -> None:
    """Give every partition another leader; returns when all have it."""
    led = wait_for(
        lambda: _led(bootstrap, topic), _WHOLE_DEADLINE_S, lambda: f"{topic} has partitions without a leader"
    )
    before = {p.id: p.leader.id for p in led}
    order = {p.id: _rotated([r.id for r in p.replicas], p.leader.id) for p in led}
    asyncio.run(until_it_works(partial(_reassign, bootstrap, topic, order), _is_passing))
    admin = AdminClient({**client(bootstrap), **QUIET})

    def have_moved() -> bool:
        """Hold an election. A replica that is not in sync now is elected by a later one."""
        asked = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, p) for p in order])
        try:
            asked.result(_TIMEOUT_S)
            return all(p.leader is not None and p.leader.id != before[p.id] for p in layout(bootstrap, topic))
        except KafkaException:  # the controller is another one now
            return False

    wait_for(have_moved, _TIMEOUT_S, lambda: f"leaders of {topic} were {before}")


def _led(bootstrap: str, topic: str) -> list[Any]:
    """The partitions, once each has a leader; empty until then."""
    found = layout(bootstrap, topic)
    return found if all(p.leader is not None for p in found) else []


def _is_passing(error: Exception) -> bool:
    """What brokers say while a controller is elected, or while one of them is away."""
    return isinstance(error, KafkaError) and error.retriable


def _rotated(replicas: list[int], leader: int) -> list[int]:
    """The same replicas, with the one after the present leader as the preferred one."""
    at = (replicas.index(leader) + 1) % len(replicas)
    return replicas[at:] + replicas[:at]


async def _reassign(bootstrap: str, topic: str, order: dict[int, list[int]]) -> None:
    known = client(bootstrap)
    asking = AIOKafkaClient(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_SSL",
        ssl_context=make_ssl_context(Tls(ca_file=known["ssl.ca.location"])),
        sasl_mechanism=known["sasl.mechanism"],
        sasl_plain_username=known["sasl.username"],
        sasl_plain_password=known["sasl.password"],
    )
    try:
        await asking.bootstrap()
        wanted = [(partition, replicas, {}) for partition, replicas in order.items()]
        request = AlterPartitionReassignmentsRequest(int(_TIMEOUT_S * 1000), [(topic, wanted, {})], {})
        answer = await asking.send(asking.get_random_node(), request)
        codes = {answer.error_code, *(p[1] for _, partitions, _ in answer.responses for p in partitions)} - {0}
        passing = [error for error in map(for_code, codes) if error.retriable]
        assert len(passing) == len(codes), answer
        if passing:
            raise passing[0](str(answer))
    finally:
        await asking.close()

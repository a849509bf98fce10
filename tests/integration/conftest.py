"""Steps of workflows on the broker of the session, and topics for them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.settings.kafka_properties import ClientAccess
from tests.integration.step_world import Runs, Topics


@pytest.fixture
async def steps(bootstrap: str) -> AsyncIterator[KafkaSteps]:
    clusters = {"main": {"bootstrap.servers": bootstrap}}
    made = KafkaSteps(clusters, {"main": ClientAccess(bootstrap)}, dict, Runs(), SystemClock().now_ms)
    yield made
    await made.close()


@pytest.fixture
async def topics(bootstrap: str, unique: str) -> Topics:
    return await asyncio.to_thread(Topics, bootstrap, unique)

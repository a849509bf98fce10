"""How many bytes the partitions of a topic take on their leaders' disks (Kafka's DescribeLogDirs).

librdkafka has no call for it, so this speaks that one request through aiokafka, which Faust brings along. The number is a convenience for plans:
whatever goes wrong here (no such right, another aiokafka, an authentication this does not translate) leads to None, and sizes are then
estimated from samples.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.helpers import create_ssl_context
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Int64, Schema, String

from recoveryd.adapters.kafka.client import Properties

_log = logging.getLogger("recoveryd.kafka")


class _LogDirsAnswer(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 35
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            Array(
                ("error_code", Int16),
                ("log_dir", String("utf-8")),
                (
                    "topics",
                    Array(
                        ("name", String("utf-8")),
                        (
                            "partitions",
                            Array(
                                ("partition_index", Int32),
                                ("partition_size", Int64),
                                ("offset_lag", Int64),
                                ("is_future_key", Boolean),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    )


class _LogDirsQuestion(RequestStruct):  # type: ignore[misc]
    API_KEY = 35
    API_VERSION = 1
    RESPONSE_TYPE = _LogDirsAnswer
    SCHEMA = Schema(("topics", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))))


class _LogDirsRequest(Request[_LogDirsQuestion]):  # type: ignore[misc]
    API_KEY = 35

    def __init__(self, topic: str, partitions: list[int]) -> None:
        self._topics = [(topic, partitions)]

    def build(self, request_struct_class: type[_LogDirsQuestion]) -> _LogDirsQuestion:
        return request_struct_class(self._topics)


async def read_log_sizes(
    properties: Properties, topic: str, leaders: Mapping[int, int], deadline_s: float
) -> dict[int, int] | None:
    """Bytes on disk by partition; `leaders` maps partition to broker id. Partitions without an answer are absent, None when none had one."""
    try:
        async with asyncio.timeout(deadline_s):
            return await _ask_leaders(properties, topic, leaders) or None
    except Exception as error:  # noqa: BLE001  (see the module's docstring: a plan is never refused for want of this number)
        _log.info("No log sizes of %s, they will be estimated: %s: %s", topic, type(error).__name__, error)
        return None


async def _ask_leaders(properties: Properties, topic: str, leaders: Mapping[int, int]) -> dict[int, int]:
    client = AIOKafkaClient(**_for_aiokafka(properties))
    await client.bootstrap()
    try:
        sizes: dict[int, int] = {}
        for broker in sorted(set(leaders.values())):
            answer = await client.send(broker, _LogDirsRequest(topic, [p for p, at in leaders.items() if at == broker]))
            found = [
                entry for _error, _dir, topics in answer.results for _name, partitions in topics for entry in partitions
            ]
            # A copy that is being moved to another disk ("future") counts once.
            sizes.update({partition: size for partition, size, _lag, is_future in found if not is_future})
        return sizes
    finally:
        await client.close()


def _for_aiokafka(properties: Properties) -> dict[str, Any]:
    """The same cluster in aiokafka's words. Raises ValueError for an authentication it is not written for."""
    config: dict[str, Any] = {"bootstrap_servers": properties["bootstrap.servers"], "client_id": "recoveryd-sizes"}
    protocol = str(properties.get("security.protocol", "plaintext")).upper()
    config["security_protocol"] = protocol
    if protocol.endswith("SSL"):
        config["ssl_context"] = create_ssl_context(
            cafile=properties.get("ssl.ca.location"),
            certfile=properties.get("ssl.certificate.location"),
            keyfile=properties.get("ssl.key.location"),
            password=properties.get("ssl.key.password"),
        )
    if protocol.startswith("SASL"):
        mechanism = str(properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")))
        if mechanism not in {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}:
            raise ValueError(f"{mechanism or 'the default mechanism'} is not translated")
        config["sasl_mechanism"] = mechanism
        config["sasl_plain_username"] = properties.get("sasl.username")
        config["sasl_plain_password"] = properties.get("sasl.password")
    return config

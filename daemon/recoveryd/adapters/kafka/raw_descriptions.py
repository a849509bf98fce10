"""More of Kafka's requests and answers, as `raw_forms` has them: what brokers tell of share groups, of transactional
ids and of who wrote to a partition.
"""

from io import BytesIO
from typing import Final

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

_TEXT: Final = CompactString("utf-8")
_TAGS: Final = ("tags", TaggedFields)
_UUID_BYTES: Final = 16


class Uuid(AbstractType[bytes]):  # type: ignore[misc]  # aiokafka has no types
    """A topic's id, as bytes: nobody looks at it here."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(_UUID_BYTES)


_ASSIGNED: Final = CompactArray(("topic_id", Uuid), ("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)
_SHARE_MEMBER: Final = (
    ("member_id", _TEXT),
    ("rack_id", _TEXT),
    ("member_epoch", Int32),
    ("client_id", _TEXT),
    ("client_host", _TEXT),
    ("topics", CompactArray(_TEXT)),
    ("assignment", Schema(("partitions", _ASSIGNED), _TAGS)),
    _TAGS,
)


class ShareGroupsDescribed(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 77, 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _TEXT),
                ("group", _TEXT),
                ("state", _TEXT),
                ("epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor", _TEXT),
                ("members", CompactArray(*_SHARE_MEMBER)),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class DescribeShareGroups(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 77, 1, ShareGroupsDescribed
    SCHEMA = Schema(("groups", CompactArray(_TEXT)), ("with_operations", Boolean), _TAGS)


_START: Final = (
    ("partition", Int32),
    ("offset", Int64),
    ("leader_epoch", Int32),
    ("error_code", Int16),
    ("error_message", _TEXT),
    _TAGS,
)


class ShareOffsetsDescribed(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 90, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("group", _TEXT),
                (
                    "topics",
                    CompactArray(("topic", _TEXT), ("topic_id", Uuid), ("partitions", CompactArray(*_START)), _TAGS),
                ),
                ("error_code", Int16),
                ("error_message", _TEXT),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class DescribeShareOffsets(RequestStruct):  # type: ignore[misc]
    """Topics null: all of the group."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 90, 0, ShareOffsetsDescribed
    SCHEMA = Schema(
        (
            "groups",
            CompactArray(
                ("group", _TEXT),
                ("topics", CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class TransactionsListed(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 66, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_states", CompactArray(_TEXT)),
        ("transactions", CompactArray(("transactional_id", _TEXT), ("producer_id", Int64), ("state", _TEXT), _TAGS)),
        _TAGS,
    )


class ListTransactions(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 66, 0, TransactionsListed
    SCHEMA = Schema(("states", CompactArray(_TEXT)), ("producer_ids", CompactArray(Int64)), _TAGS)


_PRODUCER: Final = (
    ("producer_id", Int64),
    ("producer_epoch", Int32),
    ("last_sequence", Int32),
    ("last_timestamp", Int64),
    ("coordinator_epoch", Int32),
    ("transaction_start", Int64),
    _TAGS,
)


class ProducersDescribed(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 61, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", _TEXT),
                        ("producers", CompactArray(*_PRODUCER)),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class DescribeProducers(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 61, 0, ProducersDescribed
    SCHEMA = Schema(
        ("topics", CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)),
        _TAGS,
    )

"""Kafka requests and answers that neither librdkafka nor aiokafka has, field by field, for `raw_requests`.

They are in aiokafka's form. Those of a `Flexible` version have compact texts and lists, and tags behind each structure,
which are empty in what is sent.
"""

from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

_TEXT: Final = String("utf-8")
_ENTITY: Final = ("entity", Array(("entity_type", _TEXT), ("entity_name", _TEXT)))
_SIZES: Final = (("partition", Int32), ("size", Int64), ("offset_lag", Int64), ("is_future", Boolean))


class QuotasAltered(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY, API_VERSION = 49, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("entries", Array(("error_code", Int16), ("error_message", _TEXT), _ENTITY)),
    )


class AlterQuotas(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = 49, 0, QuotasAltered
    SCHEMA = Schema(
        ("entries", Array(_ENTITY, ("ops", Array(("key", _TEXT), ("value", Float64), ("remove", Boolean))))),
        ("validate_only", Boolean),
    )


class LogDirs(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 35, 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            Array(
                ("error_code", Int16),
                ("log_dir", _TEXT),
                ("topics", Array(("name", _TEXT), ("partitions", Array(*_SIZES)))),
            ),
        ),
    )


class DescribeLogDirs(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = 35, 1, LogDirs
    SCHEMA = Schema(("topics", Array(("topic", _TEXT), ("partitions", Array(Int32)))))


class OffsetsDeleted(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 47, 0
    SCHEMA = Schema(
        ("error_code", Int16),
        ("throttle_time_ms", Int32),
        ("topics", Array(("name", _TEXT), ("partitions", Array(("partition", Int32), ("error_code", Int16))))),
    )


class DeleteOffsets(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = 47, 0, OffsetsDeleted
    SCHEMA = Schema(("group", _TEXT), ("topics", Array(("name", _TEXT), ("partitions", Array(Int32)))))


class OffsetsFetched(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 9, 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("name", _TEXT),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", _TEXT),
                        ("error_code", Int16),
                    ),
                ),
            ),
        ),
        ("error_code", Int16),
    )


class FetchOffsets(RequestStruct):  # type: ignore[misc]
    """The first version that tells leader epochs."""

    API_KEY, API_VERSION, RESPONSE_TYPE = 9, 5, OffsetsFetched
    SCHEMA = Schema(("group", _TEXT), ("topics", Array(("name", _TEXT), ("partitions", Array(Int32)))))


class OffsetsCommitted(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 8, 6
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("topics", Array(("name", _TEXT), ("partitions", Array(("partition", Int32), ("error_code", Int16))))),
    )


class CommitOffsets(RequestStruct):  # type: ignore[misc]
    """The first version that takes leader epochs."""

    API_KEY, API_VERSION, RESPONSE_TYPE = 8, 6, OffsetsCommitted
    SCHEMA = Schema(
        ("group", _TEXT),
        ("generation", Int32),
        ("member", _TEXT),
        (
            "topics",
            Array(
                ("name", _TEXT),
                (
                    "partitions",
                    Array(("partition", Int32), ("offset", Int64), ("leader_epoch", Int32), ("metadata", _TEXT)),
                ),
            ),
        ),
    )


# Flexible ones.
_SHORT: Final = CompactString("utf-8")
_TAGS: Final = ("tags", TaggedFields)


class Perhaps(Schema):  # type: ignore[misc]
    """A structure that may be null: one byte before it says so."""

    def encode(self, item: Sequence[Any] | None) -> bytes:
        return b"\xff" if item is None else b"\x01" + super().encode(item)

    def decode(self, data: BytesIO) -> Any:
        return None if Int8.decode(data) < 0 else super().decode(data)


class OffsetsListed(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 2, 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", _SHORT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("timestamp", Int64),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class ListOffsets(RequestStruct):  # type: ignore[misc]
    """The first version that knows where local storage begins."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 2, 8, OffsetsListed
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            CompactArray(
                ("name", _SHORT),
                (
                    "partitions",
                    CompactArray(("partition", Int32), ("leader_epoch", Int32), ("timestamp", Int64), _TAGS),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class GroupsListed(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 16, 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "groups",
            CompactArray(("group", _SHORT), ("protocol_type", _SHORT), ("state", _SHORT), ("type", _SHORT), _TAGS),
        ),
        _TAGS,
    )


class ListGroups(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 16, 5, GroupsListed
    SCHEMA = Schema(("states", CompactArray(_SHORT)), ("types", CompactArray(_SHORT)), _TAGS)


_TOPIC_INFO: Final = CompactArray(
    ("name", _SHORT),
    ("partitions", Int32),
    ("replication_factor", Int16),
    ("configs", CompactArray(("key", _SHORT), ("value", _SHORT), _TAGS)),
    _TAGS,
)
_TASKS: Final = CompactArray(("subtopology", _SHORT), ("partitions", CompactArray(Int32)), _TAGS)
_ASSIGNMENT: Final = Schema(("active", _TASKS), ("standby", _TASKS), ("warmup", _TASKS), _TAGS)
_OFFSETS: Final = CompactArray(("subtopology", _SHORT), ("partition", Int32), ("offset", Int64), _TAGS)
_STREAMS_MEMBER: Final = (
    ("member_id", _SHORT),
    ("member_epoch", Int32),
    ("instance_id", _SHORT),
    ("rack_id", _SHORT),
    ("client_id", _SHORT),
    ("client_host", _SHORT),
    ("topology_epoch", Int32),
    ("process_id", _SHORT),
    ("user_endpoint", Perhaps(("host", _SHORT), ("port", Int16), _TAGS)),
    ("client_tags", CompactArray(("key", _SHORT), ("value", _SHORT), _TAGS)),
    ("task_offsets", _OFFSETS),
    ("task_end_offsets", _OFFSETS),
    ("assignment", _ASSIGNMENT),
    ("target_assignment", _ASSIGNMENT),
    ("is_classic", Boolean),
    _TAGS,
)
_SUBTOPOLOGY: Final = (
    ("id", _SHORT),
    ("source_topics", CompactArray(_SHORT)),
    ("repartition_sink_topics", CompactArray(_SHORT)),
    ("state_changelog_topics", _TOPIC_INFO),
    ("repartition_source_topics", _TOPIC_INFO),
    _TAGS,
)


class StreamsGroupsDescribed(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 89, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _SHORT),
                ("group", _SHORT),
                ("state", _SHORT),
                ("epoch", Int32),
                ("assignment_epoch", Int32),
                ("topology", Perhaps(("epoch", Int32), ("subtopologies", CompactArray(*_SUBTOPOLOGY)), _TAGS)),
                ("members", CompactArray(*_STREAMS_MEMBER)),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class DescribeStreamsGroups(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 89, 0, StreamsGroupsDescribed
    SCHEMA = Schema(("groups", CompactArray(_SHORT)), ("with_operations", Boolean), _TAGS)

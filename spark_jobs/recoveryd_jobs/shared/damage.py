"""What librdkafka (2.16) says of a record that it cannot decode. It then goes on somewhere behind it, so that what lies
between is not shown, and what it says next is no truth about the log.

It stands here because the daemon and its jobs both read logs.
"""

# ruff: noqa: SLF001  (error codes of the client library itself begin with an underscore)

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

# The check sum is wrong, or what is there cannot be unpacked, or is no record at all.
DAMAGED: Final = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED})
# The client unpacks a batch (zstd) only up to this size, and calls a larger one damaged. By default it is 100 MB; this
# is the most that it takes.
UNPACKS: Final[Mapping[str, int]] = {"receive.message.max.bytes": 2_147_483_647}

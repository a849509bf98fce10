"""Configs of a topic that recoveryd makes and fills with copies: records of any age stay, each with its own time.
Settings have Kafka's own names.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FOREVER: Final = str(2**63 - 1)
AS_WRITTEN: Final[Mapping[str, str]] = MappingProxyType({
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": FOREVER,
    "message.timestamp.after.max.ms": FOREVER,
})  # fmt: skip

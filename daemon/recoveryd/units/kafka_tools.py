"""Commands of Kafka's own tools that a person is told, where nothing of recoveryd does it for them."""

import shlex
from collections.abc import Mapping
from typing import Final

_CONFIGS: Final = "kafka-configs.sh --bootstrap-server BROKERS --alter"


def alter_configs(kind: str, name: str, configs: Mapping[str, str | None]) -> str:
    """Gives a topic or client (`kind` topics or clients) these configs; None = the broker's own value again."""
    added = [
        f"{config}=[{value}]" if "," in value else f"{config}={value}"
        for config, value in configs.items()
        if value is not None
    ]
    deleted = [config for config, value in configs.items() if value is None]
    words = [_CONFIGS, f"--entity-type {kind} --entity-name {shlex.quote(name)}"]
    words += [f"--add-config {shlex.quote(','.join(added))}"] if added else []
    words += [f"--delete-config {','.join(deleted)}"] if deleted else []
    return " ".join(words)

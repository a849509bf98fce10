"""Kafka's own command line tools, run beside ours and compared with them."""

import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.jars import TOOLS, kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.jvm import Jvm

_HEAP = "128m"
_TIMEOUT_S = 180.0


class Tool(StrEnum):
    """A tool by its class."""

    CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
    STREAMS_RESET = "org.apache.kafka.tools.StreamsResetter"


@dataclass(frozen=True, slots=True)
class Told:
    """How a tool ended, and what it printed."""

    code: int
    out: str
    err: str


def run_tool(tool: Tool, bootstrap: str, folder: Path, *arguments: str) -> Told:
    """Runs it to its end on the cluster at `bootstrap`; `folder` gets its log. Raises `SandboxError` when it has no
    end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jvm = Jvm(find_java(), kafka_jars(bundle=TOOLS))
    name = tool.value.rpartition(".")[2]
    words = "--bootstrap-server", bootstrap, *arguments
    command = jvm.logged(tool.value, *words, log_file=folder / f"{name}.log", heap=_HEAP)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SandboxError(f"{name} took longer than {_TIMEOUT_S:.0f} s.") from None
    return Told(done.returncode, done.stdout, done.stderr)

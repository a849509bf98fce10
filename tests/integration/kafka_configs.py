"""Client quotas as Kafka's own tool sets and shows them, so that no code of ours judges itself."""

import re
import subprocess
from collections.abc import Iterable

from recoveryd_sandbox.jars import kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.jvm import Jvm

CLIENT_IDS = ("clients",)
ALL_KINDS = (CLIENT_IDS, ("users",), ("users", "clients"))
_TIMEOUT_S = 180.0
_LINE = re.compile(r"Quota configs for (.+?) are (.*)$", flags=re.MULTILINE)


def run(bootstrap: str, *arguments: str) -> str:
    """`kafka-configs.sh --bootstrap-server ... ARGUMENTS`."""
    jvm = Jvm(find_java(), kafka_jars())
    command = jvm.command("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def add(bootstrap: str, configs: str, *entity: str) -> None:
    """Set a quota. `entity` as the tool needs it, for instance `--entity-type clients --entity-name x`."""
    run(bootstrap, "--alter", "--add-config", configs, *entity)


def quotas(bootstrap: str, kinds: Iterable[tuple[str, ...]] = ALL_KINDS) -> dict[str, dict[str, float]]:
    """Client quotas: what the tool calls the entity, to names and values. The tool shows one of `kinds` at a time, and
    each time is a JVM: `(CLIENT_IDS,)` is enough for who looks for a client id.
    """
    found: dict[str, dict[str, float]] = {}
    for kind in kinds:
        shown = run(bootstrap, "--describe", *(part for name in kind for part in ("--entity-type", name)))
        for entity, values in _LINE.findall(shown):
            pairs = (pair.split("=") for pair in values.split(", ") if "=" in pair)
            found[entity.strip()] = {name.strip(): float(value) for name, value in pairs}
    return found

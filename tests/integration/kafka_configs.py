"""Client quotas as Kafka's own tool sets and shows them, so that no code of ours judges itself."""

import re
import subprocess

from recoveryd_sandbox.jars import kafka_jars
from recoveryd_sandbox.java import find_java

_TIMEOUT_S = 180.0
_LINE = re.compile(r"Quota configs for (.+?) are (.*)$", flags=re.MULTILINE)


def run(bootstrap: str, *arguments: str) -> str:
    """`kafka-configs.sh --bootstrap-server ... ARGUMENTS`."""
    command = [
        str(find_java()), "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*", "kafka.admin.ConfigCommand",
        "--bootstrap-server", bootstrap, *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def add(bootstrap: str, configs: str, *entity: str) -> None:
    """Set a quota. `entity` as the tool needs it, for instance `--entity-type clients --entity-name x`."""
    run(bootstrap, "--alter", "--add-config", configs, *entity)


def quotas(bootstrap: str) -> dict[str, dict[str, float]]:
    """All client quotas: what the tool calls the entity, to names and values."""
    found: dict[str, dict[str, float]] = {}
    for kinds in (("clients",), ("users",), ("users", "clients")):
        shown = run(bootstrap, "--describe", *(part for kind in kinds for part in ("--entity-type", kind)))
        for entity, values in _LINE.findall(shown):
            pairs = (pair.split("=") for pair in values.split(", ") if "=" in pair)
            found[entity.strip()] = {name.strip(): float(value) for name, value in pairs}
    return found

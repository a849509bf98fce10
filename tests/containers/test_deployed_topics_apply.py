"""`recoveryctl topics apply` as the files for deployment call it: where the daemon beside it goes, and with its login,
also where variables of a Secret or of an EnvironmentFile say that. No engine and no broker is needed.
"""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from recoveryd import settings
from recoveryd.cli.send.connect import Connection, Tools
from recoveryd.cli.verbs import topics
from tests.cli.scripted import run_with

ROOT = Path(__file__).resolve().parents[2]
CONFIG, OVERLAY = ROOT / "config", ROOT / "config" / "overlay"
MOUNTED = "/etc/recoveryd/recoveryd.yaml"
OF_A_SECRET = {
    "RECOVERYD_BOOTSTRAP_SERVERS": "kafka.prod:9093",
    "RECOVERYD_CLUSTERS__MAIN__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "RECOVERYD_CLUSTERS__MAIN__SASL_MECHANISM": "SCRAM-SHA-256",
    "RECOVERYD_CLUSTERS__MAIN__SASL_JAAS_CONFIG": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="u" password="of-the-secret";',
    "RECOVERYD_TOPICS__PREFIX": "ours.",
}

Call = tuple[list[str], dict[str, str]]  # words after the program's name, and variables


def of_the_overlay() -> Call:
    patches = yaml.safe_load((OVERLAY / "kustomization.yaml").read_text(encoding="utf-8"))["patches"]
    [pod] = [
        p["spec"]["template"]["spec"] for p in map(yaml.safe_load, (one["patch"] for one in patches)) if "spec" in p
    ]
    [first] = pod["initContainers"]
    assert first["envFrom"] == [{"secretRef": {"name": "recoveryd", "optional": True}}]
    return first["command"][1:], {one["name"]: one["value"] for one in first.get("env", ())}


def of_the_unit() -> Call:
    text = (CONFIG / "deploy" / "recoveryd.service").read_text(encoding="utf-8").replace("\\\n#     ", "")
    [line] = [line for line in text.splitlines() if line.startswith("#   sudo ") and "recoveryctl" in line]
    before, _, after = line.partition("recoveryctl ")
    return shlex.split(after), dict(re.findall(r" -E (\w+)=(\S+)", before))


def places(found: settings.Settings) -> tuple[dict[str, str], str]:
    return found.librdkafka("main"), found.values.topics.prefix


@pytest.mark.parametrize("call", [of_the_overlay, of_the_unit])
@pytest.mark.parametrize("said", [{}, *({name: OF_A_SECRET[name]} for name in OF_A_SECRET), OF_A_SECRET])
def test_the_topics_are_made_where_the_daemon_beside_it_goes(
    call: Callable[[], Call], said: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "recoveryd.yaml"
    text = (OVERLAY / "recoveryd.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("/etc/recoveryd-secrets", str(OVERLAY)), encoding="utf-8")
    went: list[Any] = []

    async def apply(connection: Connection, _clusters: object) -> list[topics.Row]:
        went.append(places(connection.settings))
        return []

    monkeypatch.setattr(topics, "_apply", apply)
    words, env = call()
    words = [word.replace(MOUNTED, str(file)) for word in words]
    env = {name: value.replace(MOUNTED, str(file)) for name, value in env.items()}

    result = run_with(Tools(), *words, env={**env, **said})

    assert result.exit_code == 0, result.stderr
    assert went == [places(settings.load(file, env=said))]


def test_no_file_for_deployment_names_a_config_in_a_way_that_refuses_its_variables() -> None:
    files = [ROOT / "Dockerfile", *CONFIG.glob("deploy/*"), *CONFIG.glob("overlay/*")]
    texts = {file.name: file.read_text(encoding="utf-8").replace("\\\n", "") for file in files}
    assert [name for name, text in texts.items() if re.search(r"recoveryctl\b.*--config", text)] == []

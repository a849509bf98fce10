"""The compose file is valid by the schema of the Compose specification, and whatever it names is there: files, ports,
options of the daemon, the places where Grafana and Prometheus look. No engine is needed.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from recoveryd import settings
from recoveryd.errors import ConfigProblem
from tests.containers.daemon_container import COMPOSE

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
PROMETHEUS = yaml.safe_load((COMPOSE.parent / "prometheus.yml").read_text(encoding="utf-8"))


def checked(path: Path) -> subprocess.CompletedProcess[str]:
    command = [
        str(Path(sys.executable).parent / "check-jsonschema"),
        "--builtin-schema",
        "vendor.compose-spec",
        str(path),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def mounts(service: str) -> dict[str, str]:
    """Source by place in the container."""
    return {target: source for source, target, *_ in (v.split(":") for v in SERVICES[service]["volumes"])}


def test_it_is_valid_by_the_schema_of_compose() -> None:
    done = checked(COMPOSE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_would_find_a_mistake(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text(encoding="utf-8").replace("pids_limit:", "pid_limit:"), encoding="utf-8")
    done = checked(wrong)
    assert done.returncode == 1
    assert "pid_limit" in done.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_each_file_that_is_mounted_is_there_and_each_volume_is_declared(service: str) -> None:
    declared = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["volumes"]
    for source in (volume.split(":")[0] for volume in SERVICES[service].get("volumes", ())):
        assert (COMPOSE.parent / source).exists() if source.startswith(".") else source in declared, source


def test_the_broker_keeps_its_logs_on_its_volume() -> None:
    [volume] = mounts("kafka")
    assert SERVICES["kafka"]["environment"].get("KAFKA_LOG_DIRS") == volume


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_is_published_but_on_loopback(service: str) -> None:
    assert [port for port in SERVICES[service].get("ports", ()) if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("service", ["topics", "recoveryd"])
def test_the_options_of_the_daemon_are_options_that_it_has(service: str) -> None:
    loaded = settings.load(None, env=SERVICES[service]["environment"])
    assert loaded.values.clusters["main"]["bootstrap.servers"] == "kafka:19092"
    listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert "NETWORK://kafka:19092" in listeners.split(",")


def test_an_option_that_the_daemon_does_not_have_would_be_found() -> None:
    with pytest.raises(ConfigProblem, match=r"http\.listn"):
        settings.load(None, env={"RECOVERYD_BOOTSTRAP_SERVERS": "kafka:19092", "RECOVERYD_HTTP__LISTN": "0.0.0.0:1"})


def test_prometheus_scrapes_the_daemon_where_it_answers_and_has_the_rules() -> None:
    port = re.findall(r"^EXPOSE (\d+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)[0]
    [job] = PROMETHEUS["scrape_configs"]
    assert job == {"job_name": "recoveryd", "static_configs": [{"targets": [f"recoveryd:{port}"]}]}
    assert [f"/etc/prometheus/{name}" for name in PROMETHEUS["rule_files"]] == [
        place for place in mounts("prometheus") if place.endswith(".rules.yml")
    ]


def test_grafana_finds_the_dashboards_and_the_prometheus_where_its_files_say() -> None:
    places, variables = mounts("grafana"), SERVICES["grafana"]["environment"]
    provisioning = COMPOSE.parent / places["/etc/grafana/provisioning"]
    [provider] = yaml.safe_load((provisioning / "dashboards" / "recoveryd.yaml").read_text())["providers"]
    boards = COMPOSE.parent / places[provider["options"]["path"]]
    assert len([json.loads(path.read_text(encoding="utf-8")) for path in boards.glob("*.json")]) == 3
    [source] = yaml.safe_load((provisioning / "datasources" / "recoveryd.yaml").read_text())["datasources"]
    assert variables[source["url"].strip("${}")] == "http://prometheus:9090"
    assert "127.0.0.1:9090:9090" in SERVICES["prometheus"]["ports"]


def test_the_grafana_is_the_one_that_the_dashboards_are_generated_for() -> None:
    pinned = re.findall(
        r'"grafana-foundation-sdk==\d+!([\d.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    )
    assert [SERVICES["grafana"]["image"]] == [f"grafana/grafana:{version}" for version in pinned]

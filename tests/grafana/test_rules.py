"""Alert rules, their unit tests and the example configuration, by promtool; and that each alert leads to its section of
the runbook.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.pictures.binaries import SWITCH, Binaries, Unavailable, find_prometheus
from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.kernel.metrics import Sample
from tests.builders.core import BOOK

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "grafana" / "prometheus"
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "recoveryd.rules.yml").read_text())["groups"][0]["rules"]
UNIT_TESTS = "recoveryd.rules.test.yml", "recoveryd.rules.days.test.yml"
CASES: list[dict[str, Any]] = [
    case for name in UNIT_TESTS for case in yaml.safe_load((FOLDER / name).read_text())["tests"]
]
WANTED = {
    "RecoverydDown", "RecoverydNoLeader", "RecoverydCommitsStalled", "RecoverydRecoveryStalled", "RecoverydDataLost",
    "RecoverydRecoveryFailed", "RecoverydPausedForLiveTraffic", "RecoverydWorkflowFailed",
    "RecoverydVerificationMismatch", "RecoverydTelemetryStale", "RecoverydRetentionRace", "RecoverydLiveSloViolatedByReplay",
    "RecoverydRetentionBelowObjective", "RecoverydScheduleOverdue", "RecoverydScheduleRunFailed",
    "RecoverydUnitsRefused", "RecoverydSecretRefused",
    "RecoverydTopicHeldLong",
}  # fmt: skip
_TIMEOUT_S = 180


def promtool(binaries: Binaries, *words: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        [str(binaries.promtool), *words], cwd=FOLDER, input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def headings(path: Path) -> set[str]:
    return {line.lstrip("# ").lower() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")}


def test_there_is_an_alert_for_each_thing_that_needs_somebody() -> None:
    assert {rule["alert"] for rule in RULES} == WANTED


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_each_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert re.fullmatch(r"[A-Z{].+\.", rule["annotations"]["description"])
    address = rule["annotations"]["runbook_url"]
    assert address.startswith("{{ $externalLabels.recoveryd_docs }}docs/")
    page, _, anchor = address.partition("}}")[2].partition("#")
    assert anchor == rule["alert"].lower()
    assert anchor in headings(ROOT / page)
    row = f"| [{rule['alert']}]({Path(page).name}#{anchor}) | {rule['labels']['severity']} |"
    assert row in (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(WANTED))
def test_each_alert_is_shown_to_fire(name: str) -> None:
    shown = [check for case in CASES for check in case["alert_rule_test"] if check["alertname"] == name]
    assert [check for check in shown if check["exp_alerts"]]


def test_promtool_finds_nothing_wrong_with_configuration_and_rules(prometheus_binaries: Binaries) -> None:
    said = promtool(prometheus_binaries, "check", "config", "--lint-fatal", "prometheus.yml")
    assert f"{len(WANTED)} rules found" in said


def test_promtool_finds_nothing_wrong_with_the_configuration_beside_the_compose_file(
    prometheus_binaries: Binaries, tmp_path: Path
) -> None:
    """Both files lie in one folder there, as in the container."""
    for path in (ROOT / "config" / "deploy" / "prometheus.yml", FOLDER / "recoveryd.rules.yml"):
        shutil.copy(path, tmp_path)
    said = promtool(prometheus_binaries, "check", "config", "--lint-fatal", str(tmp_path / "prometheus.yml"))
    assert f"{len(WANTED)} rules found" in said


@pytest.mark.parametrize("name", UNIT_TESTS)
def test_the_alerts_fire_when_they_should_and_not_when_they_should_not(
    prometheus_binaries: Binaries, name: str
) -> None:
    assert "SUCCESS" in promtool(prometheus_binaries, "test", "rules", name)


def test_a_label_of_prometheus_makes_the_addresses_of_sections_absolute() -> None:
    """`test_the_alerts_fire_...` lets promtool fill them in."""
    told = {
        str(alert["exp_annotations"]["runbook_url"]).startswith(
            case.get("external_labels", {}).get("recoveryd_docs", "docs/")
        )
        for case in CASES
        for check in case["alert_rule_test"]
        for alert in check["exp_alerts"]
    }
    assert told == {True}
    assert [case["name"] for case in CASES if "external_labels" in case]


def test_promtool_finds_nothing_wrong_with_the_metrics(prometheus_binaries: Binaries) -> None:
    gauges = [Sample(m, tuple("x" for _ in m.labels), 1.0) for m in BOOK.metrics if m.kind.value == "gauge"]
    metrics = Metrics(BOOK.metrics, lambda: gauges)
    metrics.add(BOOK.first())
    metrics.add([Sample(m, tuple("x" for _ in m.labels), 1.0) for m in BOOK.metrics if m.kind.value == "counter"])
    for metric in BOOK.metrics:
        if metric.kind.value == "histogram":
            metrics.observe(metric, 0.1, tuple("x" for _ in metric.labels))
    assert promtool(prometheus_binaries, "check", "metrics", stdin=metrics.render()) == ""


def test_prometheus_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    with pytest.raises(Unavailable, match="RECOVERYD_PROMETHEUS=0"):
        find_prometheus()


def test_without_a_prometheus_or_apt_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RECOVERYD_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(Unavailable, match="there is no apt"):
        find_prometheus()


def test_provisioning_files_name_what_the_dashboards_are_called() -> None:
    read = {
        path.parent.name: yaml.safe_load(path.read_text()) for path in (ROOT / "grafana/provisioning").glob("*/*.yaml")
    }
    assert [(s["type"], s["isDefault"]) for s in read["datasources"]["datasources"]] == [("prometheus", True)]
    assert [(p["type"], p["folder"]) for p in read["dashboards"]["providers"]] == [("file", "recoveryd")]
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    assert [s["job_name"] for s in scraped] == ["recoveryd"]
    assert all('job="recoveryd"' in rule["expr"] for rule in RULES if rule["alert"] == "RecoverydDown")

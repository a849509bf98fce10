"""The base and the overlay of kustomize: each file is valid by Kubernetes' schemas, what one names is in another, and
where kubectl or kustomize is installed, both are really built. No cluster is needed.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from recoveryd import settings

ROOT = Path(__file__).resolve().parents[2]
BASE, OVERLAY = ROOT / "config" / "deploy", ROOT / "config" / "overlay"
BOARDS = ROOT / "grafana" / "dashboards"
VERSIONS = ("1.29", "1.33")  # the oldest that clouds still run, and a new one
OPERATOR = "monitoring.coreos.com/v1"  # its kinds are not among Kubernetes' schemas
TOOLS = [words for words in (["kubectl", "kustomize"], ["kustomize", "build"]) if shutil.which(words[0])]
SECRETS = "/etc/recoveryd-secrets"


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomization(folder: Path) -> dict[str, Any]:
    [found] = documents(folder / "kustomization.yaml")
    return found


FILES = [BASE / name for name in kustomization(BASE)["resources"] if name.endswith(".yaml")]
MADE = {document["kind"]: document for path in FILES for document in documents(path)}
POD: dict[str, Any] = MADE["Deployment"]["spec"]["template"]
CONTAINER: dict[str, Any] = POD["spec"]["containers"][0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_resource_of_the_base_is_valid_by_the_schemas_of_kubernetes(path: Path, version: str) -> None:
    for document in documents(path):
        if document["apiVersion"] != OPERATOR:
            kubernetes_validate.validate(document, version, strict=True)


def test_a_folder_or_file_that_is_named_is_there() -> None:
    named = [folder / name for folder in (BASE, OVERLAY) for name in kustomization(folder)["resources"]]
    made = kustomization(OVERLAY)
    named += [OVERLAY / file for key in ("configMapGenerator", "secretGenerator") for one in made[key] for file in one["files"]]  # fmt: skip
    assert [path for path in named if not (path / "kustomization.yaml").is_file() and not path.is_file()] == []


def test_what_protects_and_watches_the_pods_chooses_them_by_their_label() -> None:
    labels = POD["metadata"]["labels"]
    monitor, policy = MADE["PodMonitor"]["spec"], MADE["NetworkPolicy"]["spec"]
    chosen = [
        monitor["selector"]["matchLabels"],
        policy["podSelector"]["matchLabels"],
    ]
    assert chosen == [labels, labels]
    assert labels[monitor["jobLabel"]] == "recoveryd", "the job that alert rules name"


def test_what_is_scraped_and_let_in_is_the_port_of_the_pod() -> None:
    [port] = CONTAINER["ports"]
    [scraped] = MADE["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert (scraped["port"], scraped["path"]) == (port["name"], "/metrics")
    [let_in] = MADE["NetworkPolicy"]["spec"]["ingress"]
    assert [rule["port"] for rule in let_in["ports"]] == [port["name"]]


def test_nobody_gets_a_standby_which_is_never_ready_without_being_told_what_to_wait_for() -> None:
    counts = [one["count"] for one in kustomization(OVERLAY)["replicas"]]
    assert (counts, MADE["Deployment"]["spec"]["replicas"]) == ([1], 1)
    for place in (OVERLAY / "kustomization.yaml", BASE / "kubernetes.yaml"):
        assert 'docs/deploy.md, "A standby"' in place.read_text(encoding="utf-8")
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    [told] = re.findall(r"^### A standby\n(.*?)^###? ", page, re.MULTILINE | re.DOTALL)
    for word in (
        "`Available`",
        "ProgressDeadlineExceeded",
        "rollout status",
        "KubeDeploymentRolloutStuck",
    ):
        assert word in told
    waits = re.findall(
        r"^    kubectl wait --for=jsonpath='{(.+?)}'=(\S+) deploy/recoveryd --timeout=\d+m$", told, re.MULTILINE
    )
    [replicas] = re.findall(r"^`replicas: (\d+)` gives", told, re.MULTILINE)
    assert waits == [
        (".status.observedGeneration", '"$seen"'),  # or the rest may be true of what was there before
        (".status.updatedReplicas", replicas),
        (".status.readyReplicas", "1"),
    ]
    assert "seen=$(kubectl get deploy/recoveryd -o jsonpath='{.metadata.generation}')\n    kubectl wait" in told


def test_no_budget_counts_ready_pods_of_which_a_standby_is_none() -> None:
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz", "which a standby fails"
    assert "PodDisruptionBudget" not in MADE


def test_the_brokers_of_each_config_can_be_reached_through_the_policy() -> None:
    open_to = {rule["port"] for way in MADE["NetworkPolicy"]["spec"]["egress"] for rule in way["ports"]}
    configs = [MADE["ConfigMap"]["data"]["recoveryd.yaml"], (OVERLAY / "recoveryd.yaml").read_text(encoding="utf-8")]
    for config in configs:
        servers = yaml.safe_load(config)["clusters"]["main"]["bootstrap.servers"].split(",")
        assert {int(server.rpartition(":")[2]) for server in servers} <= open_to
    assert 53 in open_to


def test_the_rules_of_the_operator_are_those_of_prometheus() -> None:
    rules = yaml.safe_load((ROOT / "grafana" / "prometheus" / "recoveryd.rules.yml").read_text(encoding="utf-8"))
    assert MADE["PrometheusRule"]["spec"] == rules


def test_the_config_of_the_overlay_is_one_that_the_daemon_takes_with_the_secrets_that_are_mounted(
    tmp_path: Path,
) -> None:
    [mount] = [m for m in CONTAINER["volumeMounts"] if m["name"] == "secrets"]
    assert (mount["mountPath"], mount["readOnly"]) == (SECRETS, True)
    [made] = kustomization(OVERLAY)["secretGenerator"]
    [volume] = [v["secret"] for v in POD["spec"]["volumes"] if v["name"] == "secrets"]
    assert volume["secretName"] == made["name"]
    text = (OVERLAY / "recoveryd.yaml").read_text(encoding="utf-8")
    assert f"${{file:{SECRETS}/{made['files'][0]}}}" in text
    file = tmp_path / "recoveryd.yaml"
    file.write_text(text.replace(SECRETS, str(OVERLAY)), encoding="utf-8")
    settings.load(file, env={})


def test_each_dashboard_becomes_a_config_map_of_its_own() -> None:
    listed = [one["files"] for one in kustomization(BOARDS)["configMapGenerator"]]
    assert listed == [[path.name] for path in sorted(BOARDS.glob("*.json"))]
    assert kustomization(BOARDS)["generatorOptions"]["labels"]["grafana_dashboard"] == "1"


def built(tool: list[str], folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    done = subprocess.run([*tool, str(folder)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(done.stdout)}


@pytest.mark.skipif(not TOOLS, reason="neither kubectl nor kustomize is on this machine")
def test_the_base_is_built_with_the_dashboards_as_they_are() -> None:
    for tool in TOOLS:
        found = built(tool, BASE)
        for path in BOARDS.glob("*.json"):
            data = found["ConfigMap", f"recoveryd-{path.stem}"]["data"]
            assert data == {path.name: path.read_text(encoding="utf-8")}
            json.loads(data[path.name])
        assert "annotations" not in found["Deployment", "recoveryd"]["spec"]["template"]["metadata"]
        for document in found.values():
            if document["apiVersion"] != OPERATOR:
                kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


@pytest.mark.skipif(not TOOLS, reason="neither kubectl nor kustomize is on this machine")
def test_the_overlay_is_built_with_names_that_change_with_config_and_secrets() -> None:
    for tool in TOOLS:
        found = built(tool, OVERLAY)
        assert {d["metadata"]["namespace"] for d in found.values()} == {"recoveryd"}
        deployment = found["Deployment", "recoveryd"]["spec"]
        volumes = {v["name"]: v for v in deployment["template"]["spec"]["volumes"]}
        config, secret = volumes["config"]["configMap"]["name"], volumes["secrets"]["secret"]["secretName"]
        assert found["ConfigMap", config]["data"].keys() == {"recoveryd.yaml"}
        assert found["Secret", secret]["data"].keys() == {"kafka-password"}
        assert (config != "recoveryd-config", secret != "recoveryd-secrets") == (True, True)
        assert ("ConfigMap", "recoveryd") not in found
        assert deployment["replicas"] == 1
        assert deployment["template"]["spec"]["containers"][0]["image"].startswith("registry.example.com/recoveryd:")
        for document in found.values():
            if document["apiVersion"] != OPERATOR:
                kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


@pytest.mark.skipif(not TOOLS, reason="neither kubectl nor kustomize is on this machine")
def test_the_overlay_makes_the_own_topics_before_the_daemon_starts_and_with_what_it_has() -> None:
    for tool in TOOLS:
        pod = built(tool, OVERLAY)["Deployment", "recoveryd"]["spec"]["template"]["spec"]
        [daemon], [first] = pod["containers"], pod["initContainers"]
        [named] = first["env"]
        assert daemon["args"] == ["run", "--config", named["value"]]
        same = ("image", "envFrom", "securityContext")
        assert {key: first[key] for key in same} == {key: daemon[key] for key in same}
        assert [m for m in first["volumeMounts"] if m not in daemon["volumeMounts"]] == []
        assert {"config", "secrets"} <= {m["name"] for m in first["volumeMounts"]}


@pytest.mark.skipif(not TOOLS, reason="neither kubectl nor kustomize is on this machine")
def test_the_overlay_with_the_patches_of_control_kubernetes_has_the_account_and_may_reach_the_api_server(
    tmp_path: Path,
) -> None:
    for folder in (BASE, OVERLAY, BOARDS):
        shutil.copytree(folder, tmp_path / folder.relative_to(ROOT))
    page = (ROOT / "docs" / "control.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```yaml\n(patches:\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    overlay = tmp_path / OVERLAY.relative_to(ROOT)
    mine = kustomization(overlay)
    mine["patches"] += yaml.safe_load(block)["patches"]
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(mine), encoding="utf-8")
    for tool in TOOLS:
        found = built(tool, overlay)
        pod = found["Deployment", "recoveryd"]["spec"]["template"]["spec"]
        assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("recoveryd", True)
        egress = found["NetworkPolicy", "recoveryd"]["spec"]["egress"]
        assert {rule["port"] for way in egress for rule in way["ports"]} >= {443, 6443, 9092}

"""The Kubernetes manifests are valid by Kubernetes' own schemas, and their Spark settings fit their Kubernetes objects.
No engine is needed.
"""

import os
import re
import stat
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from recoveryd import settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "config" / "deploy"
FILES = ("kubernetes.yaml", "kubernetes-spark.yaml", "kubernetes-guard.yaml", "kubernetes-spark-guard.yaml")
VERSIONS = ("1.29", "1.33")  # the oldest that clouds still run, and a new one


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


SPARK = {(d["kind"], d["metadata"]["name"]): d for d in documents("kubernetes-spark.yaml")}
DATA = SPARK["ConfigMap", "recoveryd"]["data"]
EXECUTOR = yaml.safe_load(DATA["executor.yaml"])
PROFILE = yaml.safe_load(DATA["recoveryd.yaml"])["profiles"]["default"]
SET = SPARK["StatefulSet", "recoveryd"]["spec"]
POD = SET["template"]["spec"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FILES)
def test_every_manifest_is_valid_by_the_schemas_of_kubernetes(name: str, version: str) -> None:
    found = documents(name)
    if name == "kubernetes-spark.yaml":
        found.append(EXECUTOR)
    for document in found:
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_would_find_a_mistake() -> None:
    wrong = documents("kubernetes.yaml")[1]
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_the_config_in_the_manifest_is_one_that_the_daemon_takes(tmp_path: Path) -> None:
    (tmp_path / "recoveryd.yaml").write_text(DATA["recoveryd.yaml"], encoding="utf-8")
    loaded = settings.load(tmp_path / "recoveryd.yaml", {}).values
    conf = loaded.profiles["default"].conf
    cores = int(conf["spark.executor.instances"]) * int(conf["spark.executor.cores"])
    assert loaded.profiles["default"].slots == cores == 4
    assert loaded.profiles["inside"].slots == 2
    assert {"spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"} <= set(conf)


def test_executors_find_the_driver_by_the_name_of_its_pod() -> None:
    [service] = [d for (kind, name), d in SPARK.items() if kind == "Service" and name == SET["serviceName"]]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == SET["selector"]["matchLabels"] == SET["template"]["metadata"]["labels"]
    pod = f"{SPARK['StatefulSet', 'recoveryd']['metadata']['name']}-0"
    assert PROFILE["conf"]["spark.kubernetes.driver.pod.name"] == pod
    assert PROFILE["conf"]["spark.driver.host"] == f"{pod}.{SET['serviceName']}"
    assert SET["replicas"] == 1, "a second one would have the first one's name in its config"


def test_both_policies_together_let_drivers_make_executors_and_let_them_speak_with_each_other() -> None:
    [guard], [spark] = documents("kubernetes-guard.yaml"), documents("kubernetes-spark-guard.yaml")
    assert guard["metadata"]["name"] != spark["metadata"]["name"]
    chosen = {"matchLabels": SET["template"]["metadata"]["labels"]}
    assert guard["spec"]["podSelector"] == spark["spec"]["podSelector"] == chosen
    executors = [{"podSelector": {"matchLabels": EXECUTOR["metadata"]["labels"]}}]
    to_executors, to_api_server = spark["spec"]["egress"]
    assert (spark["spec"]["ingress"], to_executors) == ([{"from": executors}], {"to": executors})
    api_server = int(PROFILE["master"].rpartition(":")[2])
    assert api_server in {rule["port"] for rule in to_api_server["ports"]}


def test_the_daemons_account_has_the_role_and_executors_have_none() -> None:
    account = SPARK["ServiceAccount", "recoveryd"]["metadata"]["name"]
    assert POD["serviceAccountName"] == account
    binding = SPARK["RoleBinding", "recoveryd"]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", "recoveryd")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    rules = SPARK["Role", "recoveryd"]["rules"]
    assert {r for rule in rules for r in rule["resources"]} == {"pods", "configmaps", "persistentvolumeclaims", "services"}  # fmt: skip
    assert not any("*" in rule["verbs"] + rule["resources"] + rule["apiGroups"] for rule in rules)
    assert EXECUTOR["spec"]["automountServiceAccountToken"] is False


def test_what_the_docs_give_to_a_daemon_that_scales_applications_fits_together() -> None:
    page = (ROOT / "docs" / "control.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```yaml\n(apiVersion: v1\nkind: ServiceAccount\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    found = {document["kind"]: document for document in yaml.safe_load_all(block)}
    for document in found.values():
        kubernetes_validate.validate(document, VERSIONS[0], strict=True)
    account, role, binding = found["ServiceAccount"], found["Role"], found["RoleBinding"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", role["metadata"]["name"])
    assert binding["metadata"]["namespace"] == role["metadata"]["namespace"]


def test_daemon_and_executors_run_the_same_image_with_the_same_few_rights() -> None:
    [daemon], [executor] = POD["containers"], EXECUTOR["spec"]["containers"]
    assert {daemon["image"], executor["image"], PROFILE["conf"]["spark.kubernetes.container.image"]} == {
        "recoveryd:latest"
    }
    assert daemon["securityContext"] == executor["securityContext"]
    assert POD["securityContext"] == EXECUTOR["spec"]["securityContext"]
    inside = {d["kind"]: d for d in documents("kubernetes.yaml")}["Deployment"]["spec"]["template"]["spec"]
    assert (inside["securityContext"], inside["containers"][0]["securityContext"]) == (
        POD["securityContext"],
        daemon["securityContext"],
    )


def test_the_executors_program_is_in_the_image_and_the_template_where_spark_looks_for_it() -> None:
    [executor], [daemon] = EXECUTOR["spec"]["containers"], POD["containers"]
    assert executor["name"] == PROFILE["conf"]["spark.kubernetes.executor.podTemplateContainerName"]
    program = ROOT / "scripts" / "containers" / Path(executor["command"][-1]).name
    assert stat.S_IMODE(program.stat().st_mode) & stat.S_IXUSR
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(rf"^COPY .*scripts/containers/{program.name}.* {os.path.dirname(executor['command'][-1])}/$", dockerfile, re.MULTILINE)  # noqa: PTH120  # fmt: skip
    template = PROFILE["conf"]["spark.kubernetes.executor.podTemplateFile"]
    [mount] = [m["mountPath"] for m in daemon["volumeMounts"] if m["name"] == "config"]
    assert template == f"{mount}/executor.yaml"

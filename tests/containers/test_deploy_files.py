"""The files for deployment agree with each other, with the image and with the daemon's options. No engine is needed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from recoveryd import settings
from tests.containers.daemon_container import compose_service

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
UNIT = ROOT / "config" / "deploy" / "recoveryd.service"
KUBERNETES = {
    document["kind"]: document
    for document in yaml.safe_load_all((ROOT / "config" / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8"))
}
POD: dict[str, Any] = KUBERNETES["Deployment"]["spec"]["template"]["spec"]
CONTAINER: dict[str, Any] = POD["containers"][0]

_TIMEOUT_S = 120
_EXPOSURE_MAX = 2.0  # of 10; systemd's own scale calls this OK, and an unhardened service has 9.6


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def in_dockerfile(pattern: str) -> str:
    """The one group of the one match."""
    [found] = re.findall(pattern, DOCKERFILE, flags=re.MULTILINE)
    return str(found)


def test_all_dockerfiles_are_clean_for_hadolint() -> None:
    files = [ROOT / "Dockerfile", *sorted((ROOT / "tests" / "containers" / "images").glob("*/Dockerfile"))]
    assert len(files) == 3
    assert run(str(Path(sys.executable).parent / "hadolint"), *map(str, files)) == ""


def test_the_build_context_holds_what_the_dockerfile_copies_and_nothing_else() -> None:
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.MULTILINE)
        for source in line.split()[:-1]
    }
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert {s if s in allowed else str(Path(s).parent) for s in copied} == allowed
    assert [name for name in allowed if not (ROOT / name).exists()] == []


def test_all_ways_to_deploy_use_the_port_and_the_user_of_the_image() -> None:
    user, port = in_dockerfile(r"^USER (\d+):\d+$"), in_dockerfile(r"^EXPOSE (\d+)$")
    assert in_dockerfile(r"RECOVERYD_HTTP__LISTEN=(\S+)") == f"0.0.0.0:{port}"
    assert compose_service()["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert {mount.partition("uid=")[2].partition(",")[0] for mount in compose_service()["tmpfs"]} == {"", user}
    assert POD["securityContext"]["runAsUser"] == int(user)
    assert CONTAINER["ports"] == [{"name": "http", "containerPort": int(port)}]
    assert KUBERNETES["Service"]["spec"]["ports"][0]["port"] == int(port)


def test_containers_write_to_the_same_two_places_only() -> None:
    compose = {mount.partition(":")[0] for mount in compose_service()["tmpfs"]}
    pod = {mount["mountPath"] for mount in CONTAINER["volumeMounts"] if not mount.get("readOnly")}
    assert compose == pod == {"/tmp", in_dockerfile(r"^WORKDIR (/var\S+)$")}
    assert compose_service()["read_only"] is CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True


def test_where_spark_works_there_is_most_room_and_programs_may_be_run() -> None:
    place = in_dockerfile(r"^WORKDIR (/var\S+)$")
    assert in_dockerfile(r"XDG_STATE_HOME=(\S+)") + "/recoveryd" == place
    mounts = {
        path: set(options.split(",")) for path, _, options in (m.partition(":") for m in compose_service()["tmpfs"])
    }
    assert "exec" in mounts[place], "a tmpfs is noexec otherwise, and Spark's native libraries are unpacked there"
    [room] = [option for option in mounts[place] if option.startswith("size=")]
    assert room == "size=1g"
    assert "size=64m" in mounts["/tmp"]
    for file in ("kubernetes.yaml", "kubernetes-spark.yaml"):
        documents = yaml.safe_load_all((UNIT.parent / file).read_text(encoding="utf-8"))
        [pod] = [d["spec"]["template"]["spec"] for d in documents if d["kind"] in {"Deployment", "StatefulSet"}]
        names = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        sizes = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if "emptyDir" in volume}
        assert (sizes[names[place]], sizes[names["/tmp"]]) == ("4Gi", "256Mi")


@pytest.mark.parametrize("page", ["deploy.md", "verify.md", "how-to/size-it.md", "guarantees.md"])
def test_no_page_says_that_a_proof_keeps_its_tables_where_it_does_not(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert "TMPDIR" not in text
    assert "`/tmp` (Spark" not in text


def test_the_pod_and_the_service_have_no_rights_they_do_not_need() -> None:
    assert POD["automountServiceAccountToken"] is False
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"]["allowPrivilegeEscalation"] is False
    assert CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert compose_service()["cap_drop"] == ["ALL"]
    assert compose_service()["security_opt"] == ["no-new-privileges:true"]


def test_the_configuration_of_the_pod_is_valid_and_mounted_where_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "recoveryd.yaml"
    file.write_text(KUBERNETES["ConfigMap"]["data"][file.name], encoding="utf-8")
    settings.load(file, env={})
    assert CONTAINER["args"] == ["run", "--config", f"/etc/recoveryd/{file.name}"]
    assert {"name": "config", "mountPath": "/etc/recoveryd", "readOnly": True} in CONTAINER["volumeMounts"]


@pytest.mark.parametrize("place", ["kubernetes.yaml", "kubernetes-spark.yaml", "../overlay/recoveryd.yaml"])
def test_no_config_for_the_image_names_an_option_that_a_variable_of_the_image_decides(place: str) -> None:
    documents = list(yaml.safe_load_all((UNIT.parent / place).read_text(encoding="utf-8")))
    texts = [d["data"]["recoveryd.yaml"] for d in documents if d.get("kind") == "ConfigMap"]
    configs = [yaml.safe_load(text) for text in texts] or documents
    decided = [option.lower() for option in re.findall(r"^ +RECOVERYD_([A-Z_]+)=", DOCKERFILE, re.MULTILINE)]
    assert decided == ["http__listen"]
    for section, option in (key.split("__") for key in decided):
        assert [config for config in configs if option in config.get(section, {})] == []


def test_probes_ask_for_life_and_for_readiness_where_the_daemon_answers() -> None:
    probes = {name: CONTAINER[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness", "startup")}
    assert probes == {"liveness": "/livez", "readiness": "/readyz", "startup": "/livez"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_the_systemd_unit_is_valid_and_hardened(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert "ExecStart=/opt/recoveryd/bin/recoveryd run --config /etc/recoveryd/recoveryd.yaml\n" in text
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("/opt/recoveryd/bin/recoveryd run", f"{shutil.which('true')} run"), encoding="utf-8")
    assert run("systemd-analyze", "verify", str(unit)) == ""
    report = run("systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit))
    [exposure] = re.findall(r"Overall exposure level for \S+: ([\d.]+)", report)
    assert float(exposure) < _EXPOSURE_MAX


def test_the_service_stays_ended_after_the_exit_codes_that_a_restart_does_not_mend() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    final = re.findall(r"^\| (\d+) \| .* \| does not restart it \|$", page, re.MULTILINE)
    assert f"\nRestartPreventExitStatus={' '.join(final)}\n" in UNIT.read_text(encoding="utf-8")


def test_a_reload_that_comes_before_the_daemon_can_hear_it_does_not_leave_the_service_ended() -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert "\nExecReload=/bin/kill -HUP $MAINPID\n" in text
    assert "\nRestart=on-failure\n" in text, "which takes SIGHUP for a clean end"
    assert "\nRestartForceExitStatus=SIGHUP\n" in text


def test_what_outlives_a_restart_of_the_service_stays_whole_and_can_be_seen_by_the_next_daemon() -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert "\nKillMode=process\n" in text
    for option in ("PrivateUsers", "PrivateTmp", "ProcSubset", "RemoveIPC"):
        assert f"\n{option}=" not in text, "a start or stop of the service would make it anew, take it away, or hide it"
    [states] = re.findall(r"^StateDirectory=(.+)$", text, re.MULTILINE)
    [bound] = re.findall(r"^BindPaths=(.+)$", text, re.MULTILINE)
    binds = dict(reversed(each.split(":")) for each in bound.split())
    assert binds.keys() == {"/tmp", "/var/tmp"}
    assert set(binds.values()) < {f"/var/lib/{name}" for name in states.split()}
    assert "/var/lib/recoveryd" not in binds.values(), "a number as a name of a file would be one of an attempt"


def test_an_application_that_is_killed_for_memory_does_not_take_the_daemon_along() -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert re.search(r"^MemoryMax=", text, re.MULTILINE)
    assert "\nOOMPolicy=continue\n" in text


def test_the_head_of_the_unit_installs_what_was_tested_and_makes_the_topics_before_the_daemon_starts() -> None:
    head, _, unit = UNIT.read_text(encoding="utf-8").replace("\\\n#     ", "").partition("[Unit]")
    commands = [line.removeprefix("#   ") for line in head.splitlines() if line.startswith("#   sudo ")]
    assert [" pip install -c constraints.txt " in command.replace("/", " ") for command in commands].count(True) == 1
    [topics] = [n for n, command in enumerate(commands) if "/recoveryctl topics apply" in command]
    [start] = [n for n, command in enumerate(commands) if "systemctl enable --now" in command]
    assert topics < start
    for option in ("EnvironmentFile", "User"):
        [value] = re.findall(rf"^{option}=(.+)$", unit, re.MULTILINE)
        assert f" -p {option}={value} " in commands[topics], "the config's secrets and rights are those of the service"
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    words = {4: "four", 5: "five", 6: "six"}
    assert f"The unit's head has the {words[len(commands)]} commands" in page


def test_the_config_of_the_service_is_installed_for_its_group_alone() -> None:
    text = UNIT.read_text(encoding="utf-8")
    [(mode, group)] = re.findall(r"^#   sudo install -D -m (\d+) -g (\S+) recoveryd\.yaml ", text, re.MULTILINE)
    assert int(mode, 8) & 0o037 == 0, "others could read it, or the group change it"
    assert f"\nGroup={group}\n" in text


@pytest.mark.parametrize("script", [".ci/run", "scripts/containers/executor.sh", "tests/containers/images/kafka/run"])
def test_shell_scripts_can_be_read_by_bash_and_may_be_executed(script: str) -> None:
    assert run("bash", "-n", str(ROOT / script)) == ""
    assert (ROOT / script).stat().st_mode & 0o111

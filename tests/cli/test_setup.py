"""`config` and `doctor` without a broker: what they find from this machine and the config alone."""

import contextlib
import json
import os
import socket
import socketserver
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recoveryd.adapters.kafka.canary_leaders import CanaryLeaders
from recoveryd.adapters.kafka.own_topics import LEAD_NONE, TopicReport
from recoveryd.cli.verbs import doctor_clusters, doctor_machine, doctor_platform, doctor_spark
from recoveryd.cli.verbs.doctor_checks import CheckResult, CheckVerdict
from recoveryd.cli.verbs.doctor_clusters import own_needs
from recoveryd.cli.verbs.doctor_spark import check_profiles
from recoveryd.settings import load
from recoveryd.wire.topics import TopicDifference
from tests.cli.scripted import run

GOOD = "clusters:\n  main:\n    bootstrap.servers: 127.0.0.1:9092\nlog: {level: debug}\n"
SECRET = (
    "clusters:\n  main:\n    bootstrap.servers: 127.0.0.1:9092\n    security.protocol: SASL_PLAINTEXT\n"
    "    sasl.mechanism: PLAIN\n    sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="hunter2";\n'
)

EXECUTORS_S = 900.0  # of a machine that stands still


def write(folder: Path, text: str) -> str:
    file = folder / "recoveryd.yaml"
    file.write_text(text)
    return str(file)


def test_a_good_config_is_said_to_be_good(tmp_path: Path) -> None:
    result = run(None, "config", "validate", "--config", write(tmp_path, GOOD))

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "The config is good. Clusters: main. Profiles: default.\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (GOOD + "chunks: {}\n", "RCV-4002", ("recoveryd.yaml:5", "chunk")),
        (GOOD + "chunk: {max_interval: 1h}\n", "RCV-4003", ("recoveryd.yaml:5", "max_interval")),
        ("clusters: [\n", "RCV-4001", ("recoveryd.yaml:",)),
        ("log: {level: info}\n", "RCV-4004", ("--bootstrap",)),
    ],
)
def test_a_wrong_config_is_exit_code_2_with_line_and_nearest_key(
    tmp_path: Path, text: str, code: str, said: tuple[str, ...]
) -> None:
    result = run(None, "config", "validate", "--config", write(tmp_path, text))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(code)
    assert all(part in result.stderr for part in said)


CONTROL = GOOD + "units: {u: {kind: connect, group: g, control: {%s}}}\n"
WEBHOOK = "webhooks: {w: {url: 'http://x/', secret: 0123456789abcdef}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CONTROL % "kind: connect, url: 'https://x', ca_file: lost.pem", "units.u.control.ca_file"),
        (
            CONTROL % "kind: webhook, webhook: w, status_url: 'http://x/', ca_file: lost.pem" + WEBHOOK,
            "units.u.control.ca_file",
        ),
        (CONTROL % "kind: kubernetes, workload: deployment/u, kubeconfig: lost", "units.u.control.kubeconfig"),
        (CONTROL % "kind: kubernetes, workload: deployment/u", "units.u.control.kind"),
        (GOOD + "profiles: {p: {conf: {spark.x: '${env:LOST}'}}}\n", "profiles.p.conf.spark.x is not usable"),
        (
            GOOD.replace("log:", "    security.protocol: SSL\n    ssl.truststore.location: /lost.pem\nlog:"),
            "/lost.pem cannot be read",
        ),
    ],
)
def test_what_a_daemon_could_not_start_with_is_no_good_config(tmp_path: Path, text: str, said: str) -> None:
    result = run(None, "config", "validate", "--config", write(tmp_path, text))

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_missing_config_file_is_exit_code_2(tmp_path: Path) -> None:
    assert run(None, "list", "--config", str(tmp_path / "none.yaml")).exit_code == 2


def test_config_show_says_where_each_value_comes_from_and_no_secret(tmp_path: Path) -> None:
    file = write(tmp_path, SECRET)

    result = run(None, "config", "show", "--config", file, "-o", "json", env={"RECOVERYD_LOG__LEVEL": "error"})

    shown = json.loads(result.stdout)
    assert shown["log.level"] == {"value": "error", "origin": "RECOVERYD_LOG__LEVEL"}
    assert shown["clusters.main.bootstrap.servers"] == {"value": "127.0.0.1:9092", "origin": f"{file}:3"}
    assert shown["http.listen"]["origin"] == "default"
    assert "hunter2" not in result.output
    assert "hunter2" not in run(None, "config", "show", "--config", file).output


def test_config_schema_is_a_json_schema() -> None:
    schema = json.loads(run(None, "config", "schema").stdout)

    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "clusters" in schema["required"]


def test_the_record_is_printed_for_the_topic_of_the_config(tmp_path: Path) -> None:
    file = write(tmp_path, "topics: {prefix: team.}\n")

    result = run(None, "pause", "r-1", "--reason", "r", "--print-record", "--config", file)

    assert result.stdout.startswith("topic: team.control.v1\n")


def verdicts(printed: str) -> dict[str, str]:
    return {row["check"]: row["verdict"] for row in json.loads(printed)}


def test_doctor_without_an_address_fails_and_skips_what_needs_one() -> None:
    result = run(None, "doctor", "-o", "json")

    assert result.exit_code == 1
    assert verdicts(result.stdout) == {
        "java": "ok", "spark": "ok", "config": "fail", "work_dir": "skipped", "profiles": "skipped",
        "executors": "skipped", "brokers": "skipped", "features": "skipped", "ACLs": "skipped", "topics": "skipped", "write": "skipped",
        "command": "skipped", "clock": "skipped", "daemon": "skipped", "clock of the daemon": "skipped",
        "unit": "skipped",
    }  # fmt: skip
    assert "--bootstrap HOST:PORT" in run(None, "doctor").stdout


@pytest.mark.parametrize("verb", ["features", "platform", "isolation"])
@pytest.mark.parametrize(
    ("flags", "named"),
    [(("--config", "prod.yaml"), "--config"), (("-b", "a:1"), "--bootstrap"), (("--deep",), "--deep")],
)
def test_an_option_of_doctor_in_front_of_another_verb_is_refused_and_not_dropped(
    verb: str, flags: tuple[str, ...], named: str
) -> None:
    result = run(None, "doctor", *flags, verb)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"RCV-4008 {named} stands before `{verb}`, which does not see it.\n  next: Put it ")


def test_what_all_verbs_take_and_what_variables_say_may_stand_in_front(tmp_path: Path) -> None:
    facts = ("--recovery-windows", "alike", "--failure-budgets", "alike", "--replay-volume", "0.4")
    more = ("--sensitivity", "usual", "--ownership", "one")
    env: dict[str, str | None] = {"RECOVERYD_CONFIG": write(tmp_path, GOOD)}

    assert run(None, "doctor", "-q", "isolation", *facts, *more, env=env).exit_code == 0


def test_doctor_tells_the_package_when_java_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    found = doctor_machine.check_java()

    assert found.verdict is CheckVerdict.FAIL
    assert "openjdk-17-jre-headless" in found.next_step


@pytest.fixture
def silent_broker() -> Iterator[str]:
    """Somebody who takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_doctor_fails_for_a_broker_that_does_not_answer_within_its_timeout(silent_broker: str) -> None:
    result = run(
        None, "doctor", "--bootstrap", silent_broker, "--http", "127.0.0.1:1", "--timeout", "300ms", "-o", "json"
    )

    rows = {row["check"]: row for row in json.loads(result.stdout)}
    assert "Could not reach" in rows["brokers of main"]["found"]
    assert "--timeout" in rows["brokers of main"]["next_step"]
    assert result.exit_code == 1
    assert (rows["brokers of main"]["verdict"], rows["daemon"]["verdict"]) == ("fail", "warn")
    assert all(row["next_step"] for row in rows.values() if row["verdict"] in {"fail", "warn", "skipped"})
    lines = (
        "features of main",
        "ACLs on main",
        "topics on main",
        "write to main",
        "clock",
        "command",
        "clock of the daemon",
        "unit",
    )
    assert {rows[line]["verdict"] for line in (*lines, "executors of default")} == {"skipped"}


SEVERAL = "clusters:\n" + "".join(f"  {name}: {{bootstrap.servers: 'a:1'}}\n" for name in ("main", "origin", "copies"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("doctor", "--source", "orign:flights"), "RCV-1016 The config has no cluster `orign`.\n  next: Did you mean origin?"),
        (("doctor", "--target", "esat:flights"), "RCV-1016 The config has no cluster `esat`.\n  next: The config has main,"),
        (("doctor", "--target", "origin:"), "RCV-4008 --target `origin:` names no topic."),
        (("doctor", "features", "--cluster", "mian"), "RCV-1016 The config has no cluster `mian`.\n  next: Did you mean main?"),
        (("doctor", "platform", "--cluster", "mian"), "RCV-1016 "),
        (("topics", "apply", "--cluster", "mian"), "RCV-1016 The config has no cluster `mian`.\n  next: Did you mean main?"),
        (("topics", "list", "--cluster", "mian"), "RCV-1016 "),
    ],
)  # fmt: skip
def test_a_cluster_that_the_config_does_not_have_is_refused_before_anybody_is_asked(
    tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    result = run(None, *args, "--config", write(tmp_path, SEVERAL))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(said)


def needs_by_cluster(folder: Path, more: str) -> dict[str, set[tuple[str, str]]]:
    """Of each cluster, resources and names."""
    settings = load(write(folder, SEVERAL + more), env={})
    return {
        cluster: {(acl.resource.value, acl.name) for acl in own_needs(settings.topic_names, settings.values, cluster)}
        for cluster in settings.values.clusters
    }


def test_doctor_asks_for_the_rights_on_quotas_on_each_cluster_where_quotas_are_set(tmp_path: Path) -> None:
    quotas = ("Cluster", "kafka-cluster")
    on, off = (needs_by_cluster(tmp_path, f"quotas: {{enabled: {said}}}\n") for said in ("true", "false"))
    assert {cluster for cluster, needs in on.items() if quotas in needs} == {"main", "origin", "copies"}
    assert {cluster for cluster, needs in off.items() if quotas in needs} == set()


def test_doctor_asks_for_the_rights_of_the_canary_where_it_runs(tmp_path: Path) -> None:
    canary = ("Topic", "recovery.canary.v1")
    on = needs_by_cluster(tmp_path, "monitor: {canary: {enabled: true, clusters: [copies]}}\n")
    off = needs_by_cluster(tmp_path, "monitor: {canary: {enabled: false, clusters: [copies]}}\n")
    assert {cluster for cluster, needs in on.items() if canary in needs} == {"main", "copies"}
    assert {cluster for cluster, needs in off.items() if canary in needs} == {"main"}


def test_an_address_that_only_the_daemon_reads_is_missed_by_who_validates_and_by_nobody_else(tmp_path: Path) -> None:
    unit = "units: {app: {kind: group, group: app, inputs: [in]}}\n"
    hook = "webhooks: {chat: {url: {file: not-for-you}, secret_file: nor-this}}\n"
    config = write(tmp_path, f"{GOOD}{unit}{hook}")
    for verb in (("config", "show"), ("unit", "list"), ("unit", "control", "app")):
        result = run(None, *verb, "--config", config)
        assert (result.exit_code, result.stderr) == (0, "")
    result = run(None, "config", "validate", "--config", config)
    assert result.exit_code != 0
    assert f"{config}:6: webhooks.chat.url is not usable: the file {tmp_path / 'not-for-you'}" in result.stderr


CANARY = "recovery.canary.v1"
EACH = "So that the canary measures each broker:"
FEWER = TopicDifference(CANARY, "partitions", "2", "1", fatal=False)
SEGMENTS = TopicDifference(CANARY, "segment.ms", "300000", "600000", fatal=False)
SILENT = TopicDifference(CANARY, LEAD_NONE, "none", "2", fatal=False)
RECEIPTS = TopicDifference("recovery.receipts.v1", "partitions", "8", "4", fatal=False)
ONE_LED = CanaryLeaders(CANARY, frozenset({1, 2}), {0: 1}, {0: (1,)})
TWICE_LED = CanaryLeaders(CANARY, frozenset({1, 2}), {0: 1, 1: 1}, {0: (1,), 1: (1,)})
ALTER = f"kafka-topics.sh --bootstrap-server b:1 --alter --topic {CANARY} --partitions"


@pytest.mark.parametrize(
    ("reports", "found", "step"),
    [
        (
            [TopicReport(CANARY, exists=True, differences=(FEWER,), leaders=ONE_LED)],
            f"{CANARY}: partitions is 1, wanted 2",
            f"{EACH} `{ALTER} 2 --replica-assignment 1,2`.",
        ),
        (
            [TopicReport(CANARY, exists=True, differences=(SILENT, SEGMENTS), leaders=TWICE_LED)],
            f"{CANARY}: brokers that lead none is 2, wanted none; {CANARY}: segment.ms is 600000, wanted 300000",
            f"{EACH} `{ALTER} 3 --replica-assignment 1,1,2`. Correct the rest when convenient.",
        ),
        (
            [TopicReport("recovery.receipts.v1", exists=True, differences=(RECEIPTS,))],
            "recovery.receipts.v1: partitions is 4, wanted 8",
            "Correct it when convenient.",
        ),
    ],
)
def test_doctor_says_how_each_broker_gets_a_partition_of_the_canary(
    reports: list[TopicReport], found: str, step: str
) -> None:
    told = doctor_clusters.judge_topics("topics on main", tuple(reports), "b:1")
    assert (told.verdict, told.found, told.next_step) == (CheckVerdict.WARN, found, step)


def test_doctor_finds_a_work_dir_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")

    assert doctor_machine.check_work_dir(tmp_path / "not" / "there" / "yet").verdict is CheckVerdict.OK
    assert doctor_machine.check_work_dir(tmp_path / "file").verdict is CheckVerdict.FAIL
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    monkeypatch.setattr(os, "geteuid", lambda: 4_321)
    of_another = doctor_machine.check_work_dir(tmp_path / "file")
    assert of_another.next_step.startswith(f"If it is the daemon's, run this as its user ({os.getuid()}).")
    unreadable = doctor_machine.check_work_dir(tmp_path / ("x" * 300))  # no file system has such a name
    assert (unreadable.verdict, "cannot be read" in unreadable.found) == (CheckVerdict.FAIL, True)


REMOTE = "profiles:\n  far: {master: 'MASTER', task_slots: 4, conf: {CONF}}\n"
SECURED = "spark.authenticate: true, spark.network.crypto.enabled: true, spark.io.encryption.enabled: true"


def profiles(folder: Path, text: str, *, deep: bool = False) -> dict[str, CheckResult]:
    return {check.name: check for check in check_profiles(load(write(folder, text), env={}), deep=deep)}


def test_doctor_says_how_many_lanes_a_profile_runs_and_whether_its_master_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as serving:
        there = f"127.0.0.1:{serving.getsockname()[1]}"
        found = profiles(tmp_path, GOOD + REMOTE.replace("MASTER", f"spark://127.0.0.1:1,{there}").replace("CONF", ""))
        assert found["profile default"].found == "local[2,4], 2 lanes at once"
        assert (found["profile far"].verdict, found["profile far"].next_step) == (CheckVerdict.OK, "")
        assert "4 lanes at once; the master answers" in found["profile far"].found
        kubernetes = profiles(tmp_path, GOOD + REMOTE.replace("MASTER", f"k8s://https://{there}").replace("CONF", ""))
        assert kubernetes["profile far"].verdict is CheckVerdict.OK


@pytest.mark.parametrize(
    ("master", "said"), [("spark://127.0.0.1:1", "127.0.0.1:1 does not answer"), ("yarn", "HADOOP_CONF_DIR")]
)
def test_doctor_fails_for_a_profile_whose_master_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, said: str
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    found = profiles(tmp_path, GOOD + REMOTE.replace("MASTER", master).replace("CONF", ""))["profile far"]
    assert found.verdict is CheckVerdict.FAIL
    assert said in found.found
    assert found.next_step


def test_doctor_fails_for_a_profile_whose_secret_is_not_there(tmp_path: Path) -> None:
    found = profiles(tmp_path, GOOD + "profiles: {p: {conf: {spark.x: '${env:LOST}'}}}\n", deep=False)
    assert found["profile p"].verdict is CheckVerdict.FAIL
    assert "the environment variable LOST is not set" in found["profile p"].found


@contextlib.contextmanager
def answers(answer: bytes) -> Iterator[str]:
    """A server that says this to whoever connects."""

    class Saying(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Saying) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it",
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nhalf of it",
        b"",
    ],
)
def test_what_is_no_daemon_costs_its_own_lines_only(answer: bytes) -> None:
    with answers(answer) as url:
        found = [(check.name, check.verdict.value) for check in doctor_machine.check_daemon(url, 10.0)]
        assert found == [("daemon", "warn"), ("clock of the daemon", "skipped")]
        assert doctor_platform.metrics_shown(url) is None


def test_an_address_that_no_page_can_be_asked_at_costs_its_own_lines_only() -> None:
    url = "http://127.0.0.1:1/a b"
    assert [check.verdict.value for check in doctor_machine.check_daemon(url, 1.0)] == ["warn", "skipped"]
    assert doctor_platform.metrics_shown(url) is None


def test_doctor_fails_for_secrets_that_would_travel_unprotected_and_takes_spark_defaults_into_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as serving:
        text = SECRET + REMOTE.replace("MASTER", f"spark://127.0.0.1:{serving.getsockname()[1]}")
        found = profiles(tmp_path, text.replace("CONF", "spark.authenticate: true"))
        assert (found["profile default"].verdict, found["profile far"].verdict) == (
            CheckVerdict.OK,
            CheckVerdict.FAIL,
        )
        told = "RCV-3042 sasl.password would travel to spark://"
        assert found["profile far"].found.startswith(told)
        assert "without spark.network.crypto.enabled, spark.io.encryption.enabled." in found["profile far"].found
        assert "hunter2" not in str(found)
        assert profiles(tmp_path, text.replace("CONF", SECURED))["profile far"].verdict is CheckVerdict.OK
        defaults = "# of the operator\nspark.network.crypto.enabled  true\nspark.io.encryption.enabled=true\n"
        (tmp_path / "spark-defaults.conf").write_text(defaults)
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
        found = profiles(tmp_path, text.replace("CONF", "spark.authenticate: true"))
        assert found["profile far"].verdict is CheckVerdict.OK
        (tmp_path / "spark-defaults.conf").write_bytes(b"# f\xfcr alle\n")
        far = profiles(tmp_path, text.replace("CONF", "spark.authenticate: true"))["profile far"]
        assert (far.verdict, "spark-defaults.conf cannot be read" in far.found) == (CheckVerdict.FAIL, True)


@pytest.mark.parametrize(
    ("broker_ms", "verdict"),
    [(None, "skipped"), (900, "ok"), (1_500, "ok"), (1_000 - 2_001, "warn"), (2_000 + 2_001, "warn")],
)
def test_clocks_may_differ_by_no_more_than_two_seconds(broker_ms: int | None, verdict: str) -> None:
    assert doctor_clusters.judge_clock(broker_ms, before_ms=1_000, after_ms=2_000).verdict.value == verdict


@pytest.mark.parametrize(
    ("date", "verdict"),
    [
        ("Wed, 21 Oct 2026 07:28:00 GMT", "ok"),
        ("Wed, 21 Oct 2026 07:27:50 GMT", "warn"),
        ("Wed, 21 Oct 2026 07:28:10 GMT", "warn"),
        (None, "skipped"),
        ("soon", "skipped"),
    ],
)
def test_the_clock_of_the_daemon_is_compared_with_ours(date: str | None, verdict: str) -> None:
    now_s = datetime(2026, 10, 21, 7, 28, 1, tzinfo=UTC).timestamp()
    assert doctor_machine.judge_daemon_clock(date, now_s).verdict.value == verdict


@pytest.mark.wide("tests/cli/test_on_broker.py::test_a_daemon_plans_refuses_and_tells_and_the_exit_codes_say_so")
@pytest.mark.spark
def test_executors_of_a_profile_are_started_and_tell_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_spark, "_EXECUTORS_S", EXECUTORS_S)
    text = GOOD + "profiles: {default: {master: 'local[2]'}}\n"
    found = profiles(tmp_path, text, deep=True)["executors of default"]
    assert found.verdict is CheckVerdict.OK, found
    assert "2 tasks ran on 1 host(s), Python" in found.found


@pytest.mark.spark
def test_executors_that_cannot_be_started_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_spark, "_EXECUTORS_S", EXECUTORS_S)
    conf = "{spark.pyspark.python: /nowhere/python3}"
    text = GOOD + f"profiles: {{default: {{master: 'local[1]', conf: {conf}}}}}\n"
    found = profiles(tmp_path, text, deep=True)["executors of default"]
    assert found.verdict is CheckVerdict.FAIL
    assert "RCV-3041" in found.found
    assert "/nowhere/python3" in found.found

"""Loading the config: one strict file, environment, flags; each error names key, file and line."""

import json
from pathlib import Path
from typing import Any

import pytest

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.live.lag.window import LagParams
from recoveryd.live.params import LiveParams
from recoveryd.params import params_beside
from recoveryd.recovery.job_specs import JobDefaults
from recoveryd.recovery.params import Params
from recoveryd.settings import Settings, load
from recoveryd.settings.renewing import cluster_files, control_files, webhook_files
from recoveryd.wire.topics import TopicNames
from recoveryd_jobs.contract import ChunkLimits

MINIMAL = "clusters: {main: {bootstrap.servers: 'a:1'}}\n"


def loaded(text: str, env: dict[str, str] | None = None, **more: Any) -> Settings:
    """The settings of a config text, written to a separate folder."""
    path = Path("c.yaml")
    path.write_text(text)
    return load(path, env=env or {}, **more)


def problem(text: str, env: dict[str, str] | None = None, **more: Any) -> ConfigProblem:
    with pytest.raises(ConfigProblem) as caught:
        loaded(text, env, **more)
    return caught.value


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_three_ways_to_say_where_the_brokers_are() -> None:
    from_file = loaded(MINIMAL)
    from_flag = load(bootstrap="a:1", env={})
    from_variable = load(env={"RECOVERYD_BOOTSTRAP_SERVERS": "a:1"})
    assert from_file.values == from_flag.values == from_variable.values
    assert from_file.librdkafka() == {"bootstrap.servers": "a:1", "security.protocol": "plaintext"}


def test_a_flag_beats_a_variable_and_a_variable_beats_the_file() -> None:
    env = {"RECOVERYD_BOOTSTRAP_SERVERS": "variable:1", "RECOVERYD_SCOPE": "variable", "RECOVERYD_LOG__LEVEL": "debug"}
    settings = loaded("scope: file\nlog: {format: json}\n" + MINIMAL, env, bootstrap="flag:1")
    assert settings.librdkafka()["bootstrap.servers"] == "flag:1"
    assert (settings.values.scope, settings.values.log.level, settings.values.log.format) == (
        "variable",
        "debug",
        "json",
    )


def test_the_file_may_be_named_by_a_variable() -> None:
    Path("x.yaml").write_text(MINIMAL)
    assert load(env={"RECOVERYD_CONFIG": "x.yaml"}).values.clusters == {"main": {"bootstrap.servers": "a:1"}}


def test_without_any_address_the_error_says_how_to_give_one() -> None:
    with pytest.raises(ConfigProblem) as caught:
        load(env={})
    assert caught.value.code is Code.BOOTSTRAP_MISSING
    assert "--bootstrap" in caught.value.hint


def test_the_core_gets_its_documented_defaults() -> None:
    assert loaded(MINIMAL).params() == params_beside(Params(own_topics=frozenset(TopicNames().all)))


def test_the_core_gets_what_the_config_says() -> None:
    params = loaded(
        MINIMAL
        + "topics: {prefix: 'x.'}\nprofiles: {big: {master: 'local[8,4]'}}\nlimits: {max_active_recoveries: 3}\n"
        + (
            "approval: {above_bytes: 1GB, above_records: 5, ttl: 1h}\nlease: {ttl: 20s, renew_every: 5, "
            "floor_bytes_per_s: 1KiB}\n"
        )
        + "chunk: {max_interval: 2.5}\nattempts: {max_failures: 2, stall_after: PT1M}\nmonitor: {interval: 500ms}\n"
        + "rates: {bytes_per_s: 1MB}\n"
    ).params()
    assert params.recoveries == Params(
        own_topics=frozenset(TopicNames("x.").all),
        profiles=frozenset({"default", "big"}),
        max_active_recoveries=3,
        approval_above_bytes=10**9,
        approval_above_records=5,
        approval_ttl_ms=3_600_000,
        lease_ttl_ms=20_000,
        lease_renew_ms=5_000,
        floor_bytes_per_s=1024.0,
        chunk_max_ms=2_500,
        max_failures=2,
        stall_after_ms=60_000,
        sample_period_ms=500,
        eta_bytes_per_s=1e6,
        live=LiveParams(lag=LagParams(period_ms=2_000), sample_history=63),
    )
    assert params == params_beside(params.recoveries)


def test_every_capability_gets_what_is_said_of_it() -> None:
    params = loaded(
        MINIMAL
        + "limits: {keep_terminal: 1d, keep_terminal_most: 7, closing_deadline: 2h, planning_deadline: 90s}\n"
        + "webhooks: {pager: {url: 'https://a/', secret: 'a key of twenty letters'}}\n"
    ).params()
    for one in (params.holds, params.recoveries, params.watches, params.workflows, params.schedules):
        assert (one.keep_terminal_ms, one.keep_terminal_most) == (86_400_000, 7)
    assert (params.workflows.closing_deadline_ms, params.workflows.planning_deadline_ms) == (7_200_000, 90_000)
    assert (params.recoveries.planning_deadline_ms, params.watches.webhooks) == (90_000, frozenset({"pager"}))


def test_every_job_gets_its_clients_topics_and_limits() -> None:
    settings = loaded(
        "clusters: {main: {bootstrap.servers: 'a:1'}, dr: {bootstrap.servers: 'b:1'}}\n"
        "chunk: {max_bytes: 1MiB, max_records: 5}\nattempts: {transaction_timeout: 30s, stop_wait: 1m}\n"
    )
    assert settings.job_defaults(settings.librdkafka_all()) == JobDefaults(
        scope="default",
        clients={
            "main": {"bootstrap.servers": "a:1", "security.protocol": "plaintext"},
            "dr": {"bootstrap.servers": "b:1", "security.protocol": "plaintext"},
        },
        directives_topic="recovery.directives.v1",
        progress_topic="recovery.progress.v1",
        receipts_topic="recovery.receipts.v1",
        chunk=ChunkLimits(2**20, 5, 5_000),
        transaction_timeout_ms=30_000,
        stop_wait_ms=60_000,
    )


@pytest.mark.parametrize(
    ("profile", "slots"),
    [
        ("{}", 2),
        ("{master: local}", 1),
        ("{master: 'local[7]'}", 7),
        ("{master: 'local[9,4]', task_slots: 3}", 3),
        ("{master: 'local[9,4]', conf: {spark.task.cpus: 2}}", 4),
        (
            (
                "{master: 'yarn', task_slots: 6, conf: {spark.executor.instances: 3, spark.executor.cores: 4, "
                "spark.task.cpus: 2}}"
            ),
            6,
        ),
        ("{master: 'spark://h:7077', task_slots: 12}", 12),
    ],
)
def test_task_slots_come_from_the_master_unless_given(profile: str, slots: int) -> None:
    assert loaded(f"{MINIMAL}profiles: {{p: {profile}}}").values.profiles["p"].slots == slots


def test_a_section_with_everything_commented_out_is_its_defaults() -> None:
    assert loaded(MINIMAL + "http:\n  # listen: x\nprofiles:\n").values == loaded(MINIMAL).values


def test_live_topics_are_names_or_mappings() -> None:
    topics = loaded(MINIMAL + "monitor: {topics: [a, {topic: b, group: g}]}").values.monitor.topics
    assert [(t.cluster, t.topic, t.group) for t in topics] == [("main", "a", None), ("main", "b", "g")]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, Path("~/.local/state/recoveryd").expanduser()),
        ({"XDG_STATE_HOME": "/state"}, Path("/state/recoveryd")),
        ({"RECOVERYD_WORK_DIR": "/w"}, Path("/w")),
    ],
)
def test_the_work_dir(env: dict[str, str], expected: Path) -> None:
    assert loaded(MINIMAL, env).work_dir == expected


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("work_dir: ~no-such-user/work\n", "work_dir"),
        ("clusters: {main: {bootstrap.servers: 'a:1', ssl.key.password: {file: ~no-such-user/p}}}\n", "clusters.main.ssl.key.password"),
        ("clusters: {main: {bootstrap.servers: 'a:1', ssl.truststore.location: \"a\\0b\"}}\n", "clusters.main.ssl.truststore.location"),
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_is_named_with_its_line(text: str, key: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        _ = loaded(text + ("" if "clusters" in text else MINIMAL)).work_dir
    assert (caught.value.code, caught.value.key, caught.value.line) == (Code.CONFIG_INVALID, key, 1)


def test_without_a_home_folder_the_work_dir_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_self: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nobody)
    with pytest.raises(ConfigProblem) as caught:
        _ = loaded(MINIMAL).work_dir
    assert caught.value.key == "work_dir"


def test_the_group_has_the_scope_unless_it_is_named() -> None:
    assert loaded(MINIMAL + "scope: eu\n").group == "recoveryd.eu"
    assert loaded(MINIMAL + "faust: {group: g}\n").group == "g"


@pytest.mark.parametrize(
    ("text", "code", "line", "message", "hint"),
    [
        ("chunk:\n  max_byte: 5\n", Code.CONFIG_UNKNOWN_KEY, 3, "There is no key chunk.max_byte.", "Did you mean chunk.max_bytes?"),
        ("chunks: {}\n", Code.CONFIG_UNKNOWN_KEY, 2, "There is no key chunks.", "Did you mean chunk?"),
        ("zzz: 1\n", Code.CONFIG_UNKNOWN_KEY, 2, "There is no key zzz.", "Keys here are clusters, scope, topics"),
        ("profiles:\n  default:\n    mastr: x\n", Code.CONFIG_UNKNOWN_KEY, 4, "profiles.default.mastr", "profiles.default.master?"),
        ("monitor:\n  topics:\n    - a\n    - {topik: x, topic: y}\n", Code.CONFIG_UNKNOWN_KEY, 5, "monitor.topics.1.topik", "monitor.topics.1.topic?"),
        ("scope: a\nscope: b\n", Code.CONFIG_INVALID, 3, "scope is given twice, first in line 2.", ""),
        ("scope: 5\n", Code.CONFIG_INVALID, 2, "scope: should be a valid string.", ""),
        ("chunk: {max_interval: 31s}\n", Code.CONFIG_INVALID, 2, "chunk.max_interval: must be at most 30s.", ""),
        ("chunk: {max_interval: soon}\n", Code.CONFIG_INVALID, 2, "'soon' is not a duration", ""),
        ("chunk: {max_interval: 0}\n", Code.CONFIG_INVALID, 2, "chunk.max_interval", ""),
        ("chunk: {max_interval: yes}\n", Code.CONFIG_INVALID, 2, "must be a duration such as 5s", ""),
        ("chunk: {max_bytes: 5 apples}\n", Code.CONFIG_INVALID, 2, "'5 apples' is not a size", ""),
        ("chunk: {max_bytes: 1.5}\n", Code.CONFIG_INVALID, 2, "must be a size such as 32MiB", ""),
        ("lease: {ttl: 10s}\n", Code.CONFIG_INVALID, 2, "lease: renew_every must be at most half of ttl", ""),
        ("faust: {session_timeout: 6s}\n", Code.CONFIG_INVALID, 2, "heartbeat_interval must be at most a third", ""),
        ("attempts: {transaction_timeout: 9s}\n", Code.CONFIG_INVALID, 0, "transaction_timeout must be at least twice", ""),
        ("log: {level: trace}\n", Code.CONFIG_INVALID, 2, "log.level: should be 'debug', 'info'", ""),
        ("http: {listen: '8712'}\n", Code.CONFIG_INVALID, 2, "'8712' is not HOST:PORT", ""),
        ("http: 5\n", Code.CONFIG_INVALID, 2, "http must be a mapping.", ""),
        ("profiles: {p: {master: 'spark://h:1'}}\n", Code.CONFIG_INVALID, 2, "task_slots is required with this master", ""),
        ("profiles: {p: {master: 'mesos://h:5050', task_slots: 2}}\n", Code.CONFIG_INVALID, 2, "is no Spark master", ""),
        ("profiles: {p: {master: 'cluster'}}\n", Code.CONFIG_INVALID, 2, "is no Spark master", ""),
        ("profiles: {p: {deployMode: cluster}}\n", Code.CONFIG_INVALID, 2, "deployMode cannot be chosen: the driver has to run beside the daemon", ""),
        ("profiles: {p: {deploy_mode: cluster}}\n", Code.CONFIG_INVALID, 2, "deploy_mode cannot be chosen", ""),
        ("profiles: {p: {conf: {spark.submit.deployMode: cluster}}}\n", Code.CONFIG_INVALID, 2, "the driver has to run beside the daemon", ""),
        ("profiles: {p: {conf: {spark.master: yarn}}}\n", Code.CONFIG_INVALID, 2, "conf must not name spark.master: the profile's master says it", ""),
        ("profiles: {p: {conf: {spark.task.cpus: two}}}\n", Code.CONFIG_INVALID, 2, "spark.task.cpus 'two', which is not a whole number", ""),
        ("profiles: {p: {conf: {spark.task.cpus: 3}}}\n", Code.CONFIG_INVALID, 2, "task_slots is 0, but master and conf let 0 tasks run at once", ""),
        ("profiles: {p: {task_slots: 3}}\n", Code.CONFIG_INVALID, 2, "task_slots is 3, but master and conf let 2 tasks run at once", ""),
        ((
            "profiles: {p: {master: 'spark://h:1', task_slots: 5, conf: {spark.cores.max: 8, spark.task.cpus: "
            "2}}}\n"
        ), Code.CONFIG_INVALID, 2, "let 4 tasks run at once", ""),
        ((
            "profiles: {p: {master: yarn, task_slots: 5, conf: {spark.executor.instances: 2, "
            "spark.executor.cores: 2}}}\n"
        ), Code.CONFIG_INVALID, 2, "let 4 tasks run at once", ""),
        ((
            "profiles: {p: {master: yarn, task_slots: 5, conf: {spark.dynamicAllocation.enabled: true, "
            "spark.dynamicAllocation.maxExecutors: 4, spark.executor.cores: 1}}}\n"
        ), Code.CONFIG_INVALID, 2, "let 4 tasks run at once", ""),
        ("profiles: {p: {conf: {spark.speculation: true}}}\n", Code.CONFIG_INVALID, 2, "must not switch spark.speculation on", ""),
        ("monitor: {topics: [{topic: a, cluster: dr}]}\n", Code.CONFIG_INVALID, 0, "names the cluster 'dr'", ""),
        ("a: b: c\n", Code.CONFIG_UNREADABLE, 2, "It is not YAML: mapping values are not allowed here.", ""),
        (f"a: {'[' * 5_000}\n", Code.CONFIG_UNREADABLE, 0, "It is nested too deeply.", ""),
        ("? [a]\n: 1\n", Code.CONFIG_INVALID, 2, "A key must be a plain word.", ""),
        ("limits: {max_active_recoveries: .nan}\n", Code.CONFIG_INVALID, 2, "limits.max_active_recoveries", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(text: str, code: Code, line: int, message: str, hint: str) -> None:
    found = problem(MINIMAL + text)
    assert (found.code, found.line) == (code, line)
    assert message in found.message
    assert hint in found.hint
    if line:
        assert f"c.yaml:{line}: " in str(found)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("*hunter2", "It is not YAML: a text that begins with *, &, ! or = needs quotes."),
        ("!hunter2", "It is not YAML: a text that begins with *, &, ! or = needs quotes."),
        ("!hun'ter2", "It is not YAML: a text that begins with *, &, ! or = needs quotes."),
        ("!hunter!2", "It is not YAML: a text that begins with *, &, ! or = needs quotes."),
        ("!!bool hunter2", "profiles.p.conf.spark.x is not what YAML takes it for; a text needs quotes."),
        ("!!float hunter2", "profiles.p.conf.spark.x is not what YAML takes it for; a text needs quotes."),
        ("!!timestamp hunter2", "profiles.p.conf.spark.x is not what YAML takes it for; a text needs quotes."),
        ("2026-13-45", "profiles.p.conf.spark.x is not what YAML takes it for; a text needs quotes."),
        ("hunter\x012", "It is not YAML: special characters are not allowed."),
    ],
)
def test_a_password_without_quotes_is_refused_and_not_repeated(written: str, message: str) -> None:
    found = problem(f"{MINIMAL}profiles:\n  p:\n    conf:\n      spark.x: {written}\n")
    assert (found.line, found.message) == (5, f"c.yaml:5: {message}")
    assert written not in f"{found} {found.hint}"
    assert "hunter" not in f"{found} {found.hint}"


@pytest.mark.parametrize(
    ("text", "code", "key", "message"),
    [
        ("clusters: {main: {bootstrap.server: 'a:1'}}", Code.CONFIG_UNKNOWN_KEY, "clusters.main.bootstrap.server", "is not a client property"),
        ("clusters: {main: {bootstrap.servers: a}}", Code.CONFIG_INVALID, "clusters.main.bootstrap.servers", "'a' is not HOST:PORT"),
        ("clusters: {main: {bootstrap.servers: {file: nowhere}}}", Code.CONFIG_INVALID, "clusters.main.bootstrap.servers", "nowhere cannot be read"),
        ("clusters: {main: {bootstrap.servers: {env: X}}}", Code.CONFIG_INVALID, "clusters.main.bootstrap.servers", "the environment variable X is not set"),
        ("clusters: {main: {bootstrap.servers: {vault: X}}}", Code.CONFIG_INVALID, "clusters.main.bootstrap.servers", "must be a text, {file: PATH} or {env: NAME}"),
        ("clusters: {main: {bootstrap.servers: [a]}}", Code.CONFIG_INVALID, "clusters.main.bootstrap.servers", "must be a text"),
        ("clusters: {main: {bootstrap.servers: 'a:1'}, dr: 5}", Code.CONFIG_INVALID, "clusters.dr", "must be a mapping"),
        ("clusters: {dr: {bootstrap.servers: 'a:1'}}", Code.BOOTSTRAP_MISSING, "", "clusters.main.bootstrap.servers is not set."),
        ("clusters: {main: {security.protocol: SSL}}", Code.BOOTSTRAP_MISSING, "", "clusters.main.bootstrap.servers is not set."),
        ("clusters: 5", Code.BOOTSTRAP_MISSING, "", "clusters.main.bootstrap.servers is not set."),
        ("- a", Code.CONFIG_UNREADABLE, "", "The config must be one mapping."),
    ],
)  # fmt: skip
def test_a_mistake_in_the_clusters_is_named(text: str, code: Code, key: str, message: str) -> None:
    found = problem(text)
    assert (found.code, found.key) == (code, key)
    assert message in found.message


@pytest.mark.parametrize("content", [None, b"\xff\xff", b"x" * 2_000_000])
def test_a_file_that_cannot_be_read(content: bytes | None) -> None:
    if content is not None:
        Path("bad.yaml").write_bytes(content)
    with pytest.raises(ConfigProblem) as caught:
        load("bad.yaml", env={})
    assert caught.value.code is Code.CONFIG_UNREADABLE
    assert caught.value.message.startswith("bad.yaml: ")


@pytest.mark.parametrize(
    ("variable", "value", "message", "hint"),
    [
        ("RECOVERYD_LOG__LEVL", "debug", "There is no key log.levl.", "Did you mean log.level?"),
        ("RECOVERYD_LOGS__LEVEL", "debug", "There is no section logs.", "Did you mean log?"),
        ("RECOVERYD_LOG_LEVEL", "debug", "There is no key log_level.", "Write RECOVERYD_LOG__LEVEL, with two underscores."),
        ("RECOVERYD_LOG__LEVEL", "loud", "log.level: should be", ""),
        ("RECOVERYD_SCOPE__X", "loud", "scope is no section", ""),
        ("RECOVERYD_MONITOR__TOPICS", "[2026-13-45]", "Its list or mapping is not YAML.", ""),
        ("RECOVERYD_MONITOR__TOPICS", "[a", "Its list or mapping is not YAML.", ""),
        ("RECOVERYD_CLUSTERS__MAIN__SASL_MECHANISM", "PLAIN", "has no effect with security.protocol PLAINTEXT", "SASL_SSL"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_variable_names_it(variable: str, value: str, message: str, hint: str) -> None:
    found = problem(MINIMAL + "scope: x\n", {variable: value})
    assert found.message.startswith(f"{variable}: ")
    assert message in found.message
    assert hint in found.hint


def test_variables_of_others_with_our_prefix_are_left_alone() -> None:
    env = {
        "RECOVERYD_PORT": "tcp://10.0.0.1:1",
        "RECOVERYD_HTTP_PORT": "tcp://x",
        "RECOVERYD_FAILPOINT": "x",
        "PATH": "y",
    }
    assert loaded(MINIMAL, env).values == loaded(MINIMAL).values


def test_variables_reach_clusters_lists_and_nulls() -> None:
    env = {
        "RECOVERYD_CLUSTERS__DR__BOOTSTRAP_SERVERS": "d:1",
        "RECOVERYD_MONITOR__TOPICS": "[a, {topic: b, cluster: dr}]",
        "RECOVERYD_APPROVAL__ABOVE_BYTES": "null",
        "RECOVERYD_CHUNK__MAX_RECORDS": "77",
        "RECOVERYD_LEASE__TTL": "45",
    }
    values = loaded(MINIMAL + "approval: {above_bytes: 5}\n", env).values
    assert values.clusters["dr"] == {"bootstrap.servers": "d:1"}
    assert [t.topic for t in values.monitor.topics] == ["a", "b"]
    assert (values.approval.above_bytes, values.chunk.max_records, values.lease.ttl) == (None, 77, 45_000)


SECRET = """
clusters:
  main:
    bootstrap.servers: a:1
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    sasl.jaas.config: %s
    ssl.key.password: {env: KEY_PASSWORD}
profiles:
  default:
    conf: {spark.ssl.keyPassword: geheim}
"""
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="%s";'


def test_every_variable_that_the_config_refers_to_is_known_as_a_secret() -> None:
    text = """
clusters:
  main: {bootstrap.servers: "a:1", security.protocol: SASL_SSL, sasl.mechanism: PLAIN, ssl.key.password: {env: KEY},
         sasl.jaas.config: %s, ssl.truststore.location: "${env:HOME}/ca.pem", ssl.truststore.type: PEM}
units:
  w: {kind: group, group: w, inputs: [t], control: {kind: process, start: [run], environment: {A: {env: OF_A_UNIT}}}}
"""
    env = {"P": "geheim", "KEY": "geheim", "HOME": "/home/me", "OTHER": "x", "RECOVERYD_CLUSTERS__DR": ""}
    env["RECOVERYD_CLUSTERS__DR"] = "{bootstrap.servers: '${env:DR}'}"
    settings = loaded(text % ("'" + JAAS % "${env:P}" + "'"), env | {"DR": "d:1"})
    assert settings.secret_variables == {"P", "KEY", "OF_A_UNIT", "DR"}, "every program needs HOME"


@pytest.mark.parametrize("password", ['ab"cd', "a\\b", "a'b;c d", '\\"', "x\\", '"', "${env:OTHER}"])
@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("written", ["${env:P}", "${file:p.txt}"])
def test_a_password_from_elsewhere_is_taken_as_it_is(password: str, quote: str, written: str) -> None:
    Path("p.txt").write_text(password + "\n")
    line = (JAAS % "!").replace('"!"', f"{quote}{written}{quote}").replace("'", "''")
    settings = loaded(SECRET % f"'{line}'", {"P": password, "KEY_PASSWORD": "x"})
    assert settings.access().password == password


def test_a_password_that_needs_quotes_and_has_none_is_refused_without_showing_it() -> None:
    line = "'" + (JAAS % "!").replace('"!"', "${env:P}") + "'"
    assert loaded(SECRET % line, {"P": "a\\b", "KEY_PASSWORD": "x"}).access().password == "a\\b"
    found = problem(SECRET % line, {"P": "geheim und", "KEY_PASSWORD": "x"})
    assert "clusters.main.sasl.jaas.config is not usable: it has a value without quotes that needs them" in str(found)
    assert "geheim" not in str(found)


@pytest.mark.parametrize("written", ["{file: jaas.txt}", "'${file:jaas.txt}'", "{env: LINE}", "'${env:LINE}'"])
def test_a_whole_login_line_may_stand_elsewhere(written: str) -> None:
    Path("jaas.txt").write_text(JAAS % "ge heim")
    settings = loaded(SECRET % written, {"LINE": JAAS % "ge heim", "KEY_PASSWORD": "x"})
    assert settings.access().password == "ge heim"


SECURED = """
clusters:
  main:
    bootstrap.servers: a:1
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    sasl.jaas.config: '%s'
    ssl.truststore.location: ca.pem
    ssl.keystore.location: ${env:CERTIFICATES}/own.pem
  dr: {bootstrap.servers: {file: dr.txt}}
webhooks: {ops: {url: "http://a/", secret_file: key.txt}}
profiles: {p: {conf: {spark.ssl.keyPassword: "${file:p.txt}"}}}
"""


def test_a_path_is_relative_to_the_file_that_names_it_also_for_who_runs_elsewhere(tmp_path: Path) -> None:
    for folder, text in ((tmp_path / "etc", "0123456789abcdef"), (tmp_path, "of-the-working-directory")):
        folder.mkdir(exist_ok=True)
        (folder / "p.txt").write_text(text)
        (folder / "key.txt").write_text(text)
        (folder / "dr.txt").write_text(f"{text}:1")
    Path("etc/c.yaml").write_text(SECURED % (JAAS % "${file:p.txt}"))
    env = {
        "CERTIFICATES": "certificates",
        "RECOVERYD_CLUSTERS__OTHER": "{bootstrap.servers: {file: dr.txt}, security.protocol: SSL, ssl.truststore.location: ca.pem}",
    }
    settings = load("etc/c.yaml", env=env)
    main, other = settings.librdkafka("main"), settings.librdkafka("other")
    assert (main["sasl.password"], settings.librdkafka("dr")["bootstrap.servers"]) == (
        "0123456789abcdef",
        "0123456789abcdef:1",
    )
    assert settings.webhook_targets() == {"ops": ("http://a/", b"0123456789abcdef")}
    assert settings.spark_conf("p") == {"spark.ssl.keyPassword": "0123456789abcdef"}
    assert main["ssl.ca.location"] == str(tmp_path / "etc/ca.pem")
    assert main["ssl.certificate.location"] == str(tmp_path / "etc/certificates/own.pem")
    assert (other["bootstrap.servers"], other["ssl.ca.location"]) == (
        "of-the-working-directory:1",
        str(tmp_path / "ca.pem"),
    )
    assert cluster_files(settings, "main") == (
        tmp_path / "etc/p.txt",
        tmp_path / "etc/ca.pem",
        tmp_path / "etc/certificates/own.pem",
    )
    assert cluster_files(settings, "dr") == (tmp_path / "etc/dr.txt",)
    assert webhook_files(settings, "ops") == (tmp_path / "etc/key.txt",)


SSL = "{bootstrap.servers: 'a:1', security.protocol: SSL, ssl.truststore.location: ca.pem}"
PASSWORD = "units: {u: {kind: connect, group: g, owner: o, control: {kind: connect, url: 'http://a/', user: u}}}\n"


def test_a_path_from_a_variable_is_relative_to_the_working_directory_whatever_the_file_has_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "key.txt").write_text("of-the-working-directory")
    Path("etc/c.yaml").write_text(
        f"clusters: {{main: {{bootstrap.servers: 'a:1'}}, dr: {SSL}}}\nwebhooks: {{ops: {{url: 'http://a/'}}}}\n{PASSWORD}"
    )
    env = {
        "RECOVERYD_CLUSTERS__DR": SSL,
        "RECOVERYD_WEBHOOKS__OPS__SECRET__FILE": "key.txt",
        "RECOVERYD_UNITS__U__CONTROL__PASSWORD__FILE": "key.txt",
    }
    settings = load("etc/c.yaml", env=env)
    assert settings.librdkafka("dr")["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert settings.webhook_targets() == {"ops": ("http://a/", b"of-the-working-directory")}
    assert webhook_files(settings, "ops") == (tmp_path / "key.txt",)
    assert settings.control_options()["u"].secret("password") == "of-the-working-directory"
    assert control_files(settings, "u") == (tmp_path / "key.txt",)


def test_what_is_wrong_in_a_section_from_a_variable_is_not_looked_for_in_the_file_that_it_replaces() -> None:
    wrong = problem(
        "clusters:\n  main: {bootstrap.servers: 'a:1'}\n  dr:\n    bootstrap.servers: b:1\n",
        {"RECOVERYD_CLUSTERS__DR": "{bootstrap.servers: nowhere}"},
    )
    assert (wrong.origin, wrong.line) == ("RECOVERYD_CLUSTERS__DR", 0)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("'" + JAAS % "geheim" + "'", "***"),
        ("'" + JAAS % "${env:P}" + "'", "*** (env P)"),
        ("'" + JAAS % "${file:p.txt}" + "'", "*** (file p.txt)"),
        ("{file: jaas.txt}", "*** (file jaas.txt)"),
    ],
)
def test_secrets_are_read_from_elsewhere_and_never_shown(written: str, shown: str) -> None:
    Path("p.txt").write_text("geheim\n")
    Path("jaas.txt").write_text(JAAS % "geheim" + "\n")
    settings = loaded(SECRET % written, {"P": "geheim", "KEY_PASSWORD": "geheim"})
    assert settings.librdkafka()["sasl.password"] == "geheim"
    listing = {value.key: value.value for value in settings.show()}
    assert listing["clusters.main.sasl.jaas.config"] == shown
    assert listing["clusters.main.ssl.key.password"] == "*** (env KEY_PASSWORD)"
    assert listing["profiles.default.conf.spark.ssl.keyPassword"] == "***"
    assert "geheim" not in json.dumps(listing) + repr(settings) + repr(settings.access())


def test_a_secret_of_a_profile_may_stand_elsewhere_and_is_never_shown() -> None:
    Path("p.txt").write_text("geheim\n")
    conf = "{spark.ssl.keyPassword: '${file:p.txt}', spark.hadoop.user: 'a-${env:P}', spark.x: 5}"
    settings = loaded(f"{MINIMAL}profiles:\n  p:\n    conf: {conf}\n", {"P": "geheim"})
    assert settings.spark_conf("p") == {
        "spark.ssl.keyPassword": "geheim",
        "spark.hadoop.user": "a-geheim",
        "spark.x": "5",
    }
    shown = {value.key: value.value for value in settings.show()}
    assert shown["profiles.p.conf.spark.ssl.keyPassword"] == "*** (file p.txt)"
    assert shown["profiles.p.conf.spark.hadoop.user"] == "a-${env:P}"
    Path("p.txt").unlink()
    with pytest.raises(ConfigProblem) as caught:
        settings.spark_conf("p")
    assert (caught.value.key, caught.value.line) == ("profiles.p.conf.spark.ssl.keyPassword", 4)


@pytest.mark.parametrize(
    ("name", "written", "shown"),
    [
        ("spark.hadoop.fs.azure.account.key.ours.dfs.core.windows.net", "hunter2", "***"),
        ("spark.hadoop.fs.s3a.access.key", "hunter2", "***"),
        ("spark.hadoop.fs.s3a.accessKey", "hunter2", "***"),
        ("spark.hadoop.google.private-key", "hunter2", "***"),
        ("spark.driver.extraJavaOptions", "-Xmx1g -Djavax.net.ssl.trustStorePassword=hunter2", "***"),
        ("spark.executor.extraJavaOptions", "-Dapi.key=hunter2", "***"),
        ("spark.executorEnv.URL", "jdbc:x://h/db;user=u;password=hunter2", "***"),
        ("spark.jars.repositories", "https://me:hunter2@repo.example/maven", "***"),
        ("spark.jars.repositories", "https://repo.example:8443/maven", "https://repo.example:8443/maven"),
        ("spark.pyspark.python", "/opt/token-service/bin/python", "/opt/token-service/bin/python"),
        ("spark.ssl.keyStore", "/etc/keys.jks", "/etc/keys.jks"),
        ("spark.shuffle.sort.bypassMergeThreshold", "200", "200"),
        ("spark.driver.extraJavaOptions", "-Dkeys=1 -Dmonkey=2", "-Dkeys=1 -Dmonkey=2"),
    ],
)
def test_what_may_be_secret_in_a_property_of_spark_is_not_shown(name: str, written: str, shown: str) -> None:
    settings = loaded(f"{MINIMAL}profiles:\n  p:\n    conf:\n      {name}: '{written}'\n")
    assert {value.key: value.value for value in settings.show()}[f"profiles.p.conf.{name}"] == shown


@pytest.mark.parametrize(
    ("written", "variables", "line"),
    [
        ("profiles:\n  p:\n    conf: {executor.memory: 4g}\n", {}, 4),
        ("", {"RECOVERYD_PROFILES__DEFAULT__CONF__SPARK_EXECUTOR_MEMORY": "4g"}, 0),
    ],
)
def test_a_name_that_spark_would_leave_out_is_refused_with_how_it_is_written(
    written: str, variables: dict[str, str], line: int
) -> None:
    with pytest.raises(ConfigProblem) as caught:
        loaded(MINIMAL + written, variables)
    assert (caught.value.code, caught.value.line) == (Code.CONFIG_INVALID, line)
    assert "is no property of Spark" in caught.value.message
    assert "RECOVERYD_PROFILES__DEFAULT__CONF='{spark.executor.memory: 4g}'" in caught.value.message
    settings = loaded(MINIMAL, {"RECOVERYD_PROFILES__DEFAULT__CONF": "{spark.executor.memory: 4g}"})
    assert settings.spark_conf("default") == {"spark.executor.memory": "4g"}


def test_the_listing_has_each_option_with_its_origin() -> None:
    settings = loaded(
        MINIMAL + "lease:\n  ttl: 60s\n",
        {"RECOVERYD_LOG__LEVEL": "debug"},
        flags={"http.listen": ("--http", "127.0.0.1:0")},
    )
    listing = {value.key: (value.value, value.origin) for value in settings.show()}
    assert {key: listing[key] for key in listing if listing[key][1] != "default"} == {
        "clusters.main.bootstrap.servers": ("a:1", "c.yaml:1"),
        "lease.ttl": ("1m", "c.yaml:3"),
        "log.level": ("debug", "RECOVERYD_LOG__LEVEL"),
        "http.listen": ("127.0.0.1:0", "--http"),
    }
    assert listing["lease.renew_every"] == ("8s", "default")
    assert listing["chunk.max_bytes"] == ("32MiB", "default")


@pytest.mark.parametrize(("listen", "host", "port"), [("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:8712", "::1", 8712)])
def test_where_http_listens(listen: str, host: str, port: int) -> None:
    http = load(bootstrap="a:1", env={}, flags={"http.listen": ("--http", listen)}).values.http
    assert (http.host, http.port) == (host, port)

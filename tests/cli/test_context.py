"""Contexts: where recoveryd is, kept under a name."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from recoveryd.cli.send.connect import Connection, Tools
from recoveryd.cli.send.contexts import Contexts
from recoveryd.cli.send.java_properties import read_properties
from recoveryd.settings import load
from tests.builders.core import to_document
from tests.cli.recoveries import RUNNING
from tests.cli.scripted import ScriptedBackend, run, run_with

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'


class Home:
    """The config folder of one user."""

    def __init__(self, folder: Path) -> None:
        self.env: dict[str, str | None] = {"XDG_CONFIG_HOME": str(folder)}
        self.contexts = folder / "recoveryd" / "contexts"

    def __call__(self, *args: str, **env: str) -> Result:
        return run(None, *args, env=self.env | env)

    def reaches(self, *args: str, **env: str) -> str:
        """The brokers that a verb would ask."""
        found: list[str] = []

        def open_backend(connection: Connection) -> ScriptedBackend:
            found.append(connection.settings.values.clusters["main"]["bootstrap.servers"])
            return ScriptedBackend()

        result = run_with(Tools(open_backend=open_backend), "list", *args, env=self.env | env)
        return found[0] if found else result.stderr

    def client_properties(self, name: str) -> dict[str, str]:
        """What the clients of this context are given."""
        folder = str(self.contexts.parent.parent)
        return load(env={}, base=Contexts({"XDG_CONFIG_HOME": folder}).read(name).as_tree()).librdkafka("main")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def two(home: Home) -> None:
    assert home("context", "add", "prod", "--bootstrap", "prod:9092").exit_code == 0
    assert home("context", "add", "dev", "-b", "dev:9092").exit_code == 0


def test_the_first_context_is_in_use_and_another_one_on_demand(home: Home) -> None:
    two(home)

    assert home.reaches() == "prod:9092"
    home("context", "use", "dev")
    assert home.reaches() == "dev:9092"
    rows: list[dict[str, Any]] = json.loads(home("context", "list", "-o", "json").stdout)
    assert [(row["name"], row["in_use"]) for row in rows] == [("dev", True), ("prod", False)]


@pytest.mark.parametrize(
    ("args", "env", "reached"),
    [
        (("--context", "dev"), {"RECOVERYD_BOOTSTRAP_SERVERS": "variable:1"}, "dev:9092"),
        ((), {"RECOVERYD_CONTEXT": "dev", "RECOVERYD_BOOTSTRAP_SERVERS": "variable:1"}, "dev:9092"),
        (("-b", "typed:1"), {"RECOVERYD_CONTEXT": "dev"}, "typed:1"),
        (("--bootstrap-server", "typed:1"), {}, "typed:1"),
        ((), {"RECOVERYD_BOOTSTRAP_SERVERS": "variable:1"}, "variable:1"),
        (("--context", "dev"), {"RECOVERYD_CLUSTERS__MAIN__BOOTSTRAP_SERVERS": "variable:1"}, "dev:9092"),
        (("--context", "dev"), {"RECOVERYD_clusters__main": "{bootstrap.servers: 'variable:1'}"}, "dev:9092"),
        ((), {"RECOVERYD_CONTEXT": "dev", "RECOVERYD_CLUSTERS__MAIN__BOOTSTRAP_SERVERS": "variable:1"}, "dev:9092"),
        ((), {"RECOVERYD_CLUSTERS__MAIN__BOOTSTRAP_SERVERS": "variable:1"}, "variable:1"),
        (("-b", "typed:1"), {"RECOVERYD_CLUSTERS__MAIN__BOOTSTRAP_SERVERS": "variable:1"}, "typed:1"),
    ],
)
def test_what_is_typed_wins_over_variables_and_these_over_the_context_in_use(
    home: Home, args: tuple[str, ...], env: dict[str, str], reached: str
) -> None:
    two(home)

    assert home.reaches(*args, **env) == reached


def test_a_named_context_is_taken_whole_and_no_variable_says_a_part_of_it(home: Home) -> None:
    two(home)
    env = {"RECOVERYD_TOPICS__PREFIX": "other.", "RECOVERYD_CLUSTERS__MAIN__SASL_MECHANISM": "PLAIN"}

    named = home("config", "show", "-o", "json", "--context", "dev", **env).stdout
    args = ("pause", "x", "--reason", "r", "--print-record", "-o", "jsonpath=.kcat", "--context", "dev")
    line = home(*args, **env).stdout

    assert json.loads(named)["topics.prefix"]["value"] == "recovery."
    assert "sasl" not in named
    assert " -t recovery.control.v1 " in line


def test_a_context_in_use_lends_no_login_to_the_brokers_of_a_variable(home: Home) -> None:
    pairs = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", f"sasl.jaas.config={LOGIN.format('hunter2')}")
    home("context", "add", "prod", "-b", "prod:9092", *(word for pair in pairs for word in ("--property", pair)))

    shown = home("config", "show", "-o", "json", RECOVERYD_CLUSTERS__MAIN__BOOTSTRAP_SERVERS="variable:1").stdout

    assert json.loads(shown)["clusters.main.bootstrap.servers"]["value"] == "variable:1"
    assert "sasl" not in shown


def prod_config(folder: Path, more: str = "") -> str:
    """The config of a daemon, with a login."""
    file = folder / "prod.yaml"
    jaas = LOGIN.format("hunter2").replace("'", "''")
    file.write_text(
        "clusters:\n  main:\n    bootstrap.servers: prod1:9093,prod2:9093\n    security.protocol: SASL_PLAINTEXT\n"
        f"    sasl.mechanism: PLAIN\n    sasl.jaas.config: '{jaas}'\n{more}"
    )
    return str(file)


@pytest.mark.parametrize(
    ("variable", "value", "key"),
    [
        ("RECOVERYD_BOOTSTRAP_SERVERS", "staging:1", "clusters.main.bootstrap.servers"),
        ("RECOVERYD_CLUSTERS__MAIN__BOOTSTRAP_SERVERS", "staging:1", "clusters.main.bootstrap.servers"),
        ("RECOVERYD_CLUSTERS__MAIN", "{bootstrap.servers: 'staging:1'}", "clusters.main"),
        ("RECOVERYD_CLUSTERS__MAIN__SASL_MECHANISM", "SCRAM-SHA-512", "clusters.main.sasl.mechanism"),
        ("RECOVERYD_TOPICS__PREFIX", "other.", "topics.prefix"),
        ("RECOVERYD_TOPICS", "{receipts_partitions: 5}", "topics.prefix"),
    ],
)
@pytest.mark.parametrize("args", [("list",), ("pause", "x", "--reason", "r", "--print-record"), ("lag",)])
def test_a_config_that_is_typed_and_a_variable_that_says_another_place_are_both_named(
    home: Home, tmp_path: Path, args: tuple[str, ...], variable: str, value: str, key: str
) -> None:
    file = prod_config(tmp_path, "topics: {prefix: mine.}\n")

    result = run_with(Tools(), *args, "--config", file, env=home.env | {variable: value})

    assert result.exit_code == 2
    assert result.stderr.startswith(f"RCV-4008 For {key}, --config {file} says ")
    assert f" and {variable} says " in result.stderr


@pytest.mark.parametrize(
    ("args", "env", "reached"),
    [
        ((), {"RECOVERYD_BOOTSTRAP_SERVERS": "prod2:9093"}, "prod2:9093"),
        (("-b", "typed:1"), {"RECOVERYD_BOOTSTRAP_SERVERS": "variable:1"}, "typed:1"),
        ((), {"RECOVERYD_TOPICS__PREFIX": "mine."}, "prod1:9093,prod2:9093"),
        ((), {"RECOVERYD_HTTP__LISTEN": "0.0.0.0:8712"}, "prod1:9093,prod2:9093"),  # of the image
        ((), {"RECOVERYD_CONTEXT": "dev"}, "prod1:9093,prod2:9093"),
    ],
)
def test_a_config_that_is_typed_is_filled_by_variables_that_do_not_contradict_it(
    home: Home, tmp_path: Path, args: tuple[str, ...], env: dict[str, str], reached: str
) -> None:
    two(home)

    file = prod_config(tmp_path, "http: {listen: '127.0.0.1:8713'}\n")

    assert home.reaches("--config", file, *args, **env) == reached


def test_the_login_of_a_config_of_a_variable_goes_to_no_brokers_that_are_typed(home: Home, tmp_path: Path) -> None:
    file = prod_config(tmp_path)

    told = home.reaches("-b", "staging:1", RECOVERYD_CONFIG=file)

    assert told.startswith(f"RCV-4008 sasl.mechanism of {file}:5 is meant for prod1:9093,prod2:9093 ({file}:3), and")
    assert "hunter2" not in told
    assert home.reaches("-b", "prod2:9093", RECOVERYD_CONFIG=file) == "prod2:9093"
    assert home.reaches("-b", "staging:1", "--config", file) == "staging:1"


def small_config(folder: Path, name: str, brokers: str, more: str = "") -> str:
    file = folder / f"{name}.yaml"
    file.write_text(f"clusters:\n  main: {{bootstrap.servers: '{brokers}'}}\n{more}" if brokers else "log: {}\n")
    return str(file)


OF_PROD = {
    "RECOVERYD_CLUSTERS__MAIN__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "RECOVERYD_CLUSTERS__MAIN__SASL_MECHANISM": "PLAIN",
    "RECOVERYD_CLUSTERS__MAIN__SASL_JAAS_CONFIG": LOGIN.format("hunter2"),
}


@pytest.mark.parametrize("typed", [(), ("-b", "dev:9092"), ("-b", "another:1")])
@pytest.mark.parametrize("named_by", ["RECOVERYD_BOOTSTRAP_SERVERS", "RECOVERYD_CONFIG", "RECOVERYD_CLUSTERS"])
def test_the_login_of_variables_goes_to_their_own_brokers_only_where_a_config_is_typed(
    home: Home, tmp_path: Path, typed: tuple[str, ...], named_by: str
) -> None:
    dev, prod = small_config(tmp_path, "dev", "dev:9092"), small_config(tmp_path, "prod", "prod:9092")
    said = {
        "RECOVERYD_BOOTSTRAP_SERVERS": "prod:9092",
        "RECOVERYD_CONFIG": prod,
        "RECOVERYD_CLUSTERS": "{main: {bootstrap.servers: 'prod:9092'}}",
    }[named_by]

    told = home.reaches("--config", dev, *typed, **OF_PROD, **{named_by: said})

    assert told.startswith("RCV-4008 clusters.main.sasl."), told
    assert " is meant for prod:9092 " in told
    assert "hunter2" not in told
    assert "--bootstrap which brokers" not in told
    if named_by != "RECOVERYD_CLUSTERS":
        assert home.reaches("--config", prod, **OF_PROD, **{named_by: said}) == "prod:9092"


def test_the_login_of_variables_goes_to_no_typed_brokers_where_the_config_names_none(
    home: Home, tmp_path: Path
) -> None:
    bare, env = small_config(tmp_path, "bare", ""), OF_PROD | {"RECOVERYD_BOOTSTRAP_SERVERS": "prod:9092"}

    assert home.reaches("--config", bare, "-b", "dev:9092", **env).startswith("RCV-4008 clusters.main.sasl.")
    assert home.reaches("--config", bare, "-b", "prod:9092", **env) == "prod:9092"
    assert home.reaches("--config", bare, **env) == "prod:9092"


def test_the_login_of_variables_for_a_further_cluster_goes_to_their_own_brokers_only(
    home: Home, tmp_path: Path
) -> None:
    west = "  west: {{bootstrap.servers: '{}'}}\n"
    dev = small_config(tmp_path, "dev", "dev:9092", west.format("devwest:1"))
    prod = small_config(tmp_path, "prod", "prod:9092", west.format("west:1"))
    env = {name.replace("MAIN", "WEST"): value for name, value in OF_PROD.items()} | {"RECOVERYD_CONFIG": prod}

    assert home.reaches("--config", dev, **env).startswith("RCV-4008 clusters.west.sasl.")
    assert home.reaches("--config", prod, **env) == "prod:9092"


def test_a_config_that_is_typed_is_given_the_login_of_variables_that_name_no_brokers(
    home: Home, tmp_path: Path
) -> None:
    dev = small_config(tmp_path, "dev", "dev:9092")

    assert home.reaches("--config", dev, **OF_PROD) == "dev:9092"
    assert home.reaches("--config", dev, "-b", "another:1", **OF_PROD) == "another:1"


def test_the_config_of_a_daemon_shows_the_variable_that_says_its_brokers(home: Home, tmp_path: Path) -> None:
    env = {"RECOVERYD_BOOTSTRAP_SERVERS": "variable:1"}

    for args in ((), ("--config", prod_config(tmp_path))):
        shown = json.loads(home("config", "show", "-o", "json", *args, **env).stdout)
        assert shown["clusters.main.bootstrap.servers"] == {
            "value": "variable:1",
            "origin": "RECOVERYD_BOOTSTRAP_SERVERS",
        }
    typed = json.loads(home("config", "show", "-o", "json", "-b", "typed:1", **env).stdout)
    assert typed["clusters.main.bootstrap.servers"] == {"value": "typed:1", "origin": "--bootstrap"}


def test_the_line_for_kcat_goes_to_the_brokers_of_the_context(home: Home) -> None:
    two(home)
    args = ("pause", "x", "--reason", "r", "--print-record", "-o", "jsonpath=.kcat")

    told = home(*args, "--context", "dev", RECOVERYD_BOOTSTRAP_SERVERS="variable:1").stdout

    assert "| kcat -P -b dev:9092 -t recovery.control.v1 " in told


def test_a_context_and_brokers_on_one_command_line_contradict_each_other(home: Home) -> None:
    two(home)

    assert home.reaches("--context", "dev", "-b", "typed:1").startswith("RCV-4008 --context and --bootstrap")


@pytest.mark.parametrize(
    "args", [("list", "--context", "prdo"), ("context", "use", "prdo"), ("context", "remove", "prdo")]
)
def test_an_unknown_context_is_a_code_a_sentence_and_a_next_step(home: Home, args: tuple[str, ...]) -> None:
    two(home)

    result = run_with(Tools(), *args, env=home.env)

    assert result.exit_code == 3
    assert result.stderr == "RCV-4014 There is no context `prdo`.\n  next: Known are dev, prod.\n"


def test_only_the_owner_can_read_a_context_and_no_secret_is_shown(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"# of Kafka's tools\nsecurity.protocol = SASL_SSL\nsasl.mechanism: PLAIN\nsasl.jaas.config={LOGIN.format('hunter2')}\n"
    )

    home("context", "add", "prod", "-b", "b:1", "--properties", str(file))

    kept = home.contexts / "prod.yaml"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "hunter2" in kept.read_text()
    shown = home("context", "show", "-o", "json").stdout
    assert "hunter2" not in shown
    assert json.loads(shown)["properties"]["sasl.jaas.config"] == "***"


def test_a_secret_in_a_file_is_read_when_it_is_used(home: Home, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    pair = f"sasl.jaas.config={LOGIN.format('${file:' + str(secret) + '}')}"
    args = (
        "-b",
        "b:1",
        "--property",
        "security.protocol=SASL_SSL",
        "--property",
        "sasl.mechanism=PLAIN",
        "--property",
        pair,
    )

    assert home("context", "add", "prod", *args).exit_code == 0
    secret.unlink()

    assert "secret cannot be read" in home.reaches()


def test_a_secret_in_a_variable_is_taken_from_there(home: Home) -> None:
    login = f"sasl.jaas.config={LOGIN.format('${env:KAFKA_PASSWORD}')}"
    pairs = ("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", login)
    args = ("prod", "-b", "b:1", *(word for pair in pairs for word in ("--property", pair)))

    assert home("context", "add", *args, KAFKA_PASSWORD="hunter2").exit_code == 0

    assert "hunter2" not in (home.contexts / "prod.yaml").read_text()
    assert home.reaches(KAFKA_PASSWORD="hunter2") == "b:1"


def test_the_context_in_use_is_that_of_the_variable_where_it_is_set(home: Home) -> None:
    two(home)

    assert home("context", "show", "-o", "name", RECOVERYD_CONTEXT="dev").stdout == "dev\n"
    starred = home("context", "list", "-o", "jsonpath=[*].in_use", RECOVERYD_CONTEXT="dev").stdout
    assert starred.split() == ["true", "false"]


@pytest.mark.parametrize(
    "variable",
    [
        "RECOVERYD_CONTEXT",
        "RECOVERYD_BOOTSTRAP_SERVERS",
        "RECOVERYD_CONFIG",
        "RECOVERYD_CLUSTERS__MAIN__BOOTSTRAP_SERVERS",
        "RECOVERYD_TOPICS__PREFIX",
    ],
)
def test_who_chooses_a_context_is_told_which_variable_comes_before_it(home: Home, variable: str) -> None:
    two(home)

    assert f"come first: {variable}. " in home("context", "use", "dev", **{variable: "other"}).stderr
    assert "come first" not in home("context", "use", "dev").stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("add", "x", "-b", "b:1", "--property", "securty.protocol=SSL"), "RCV-4002", "security.protocol"),
        (("add", "x", "-b", "b"), "RCV-4003", "HOST:PORT"),
        (("add", "x"), "RCV-4008", "--bootstrap HOST:PORT"),
        (("add", "x", "-b", "b:1", "--http", "https://u:hunter2@h"), "RCV-4008 --http holds", "neither"),
        *(
            (("add", "x", "-b", "b:1", "--http", url), "RCV-4008", f"--http `{url}` is no address.")
            for url in ("", "http://", "https:///metrics", "http://:8712", "http://h:port", "h:99999", "http://[::1")
        ),
        (("add", "../x", "-b", "b:1"), "RCV-4008", "no name of a context"),
        (("add", "x", "-b", "b:1", "--property", "nothing"), "RCV-4008", "NAME=VALUE"),
        (("add", "x", "-b", "b:1", "--property", "a=1", "--property", "a =2"), "RCV-4008", "`a` more than once"),
        (("add", "prod", "-b", "b:1"), "RCV-4008", "--replace"),
        (("show", "nobody"), "RCV-4014", "Known are dev, prod"),
    ],
)
def test_what_is_no_context_is_refused_and_nothing_is_kept(
    home: Home, args: tuple[str, ...], code: str, said: str
) -> None:
    two(home)

    result = home("context", *args)

    assert result.exit_code in {2, 3}
    assert result.stderr.startswith(code)
    assert said in result.stderr
    assert not (home.contexts / "x.yaml").exists()


def test_a_context_that_was_spoiled_by_hand_says_how_to_make_it_again(home: Home) -> None:
    two(home)
    (home.contexts / "dev.yaml").write_text("properties: [1]\n")

    result = home("context", "show", "dev")

    assert result.exit_code == 2
    assert "context add dev --replace" in result.stderr


def test_a_removed_context_is_in_use_no_longer(home: Home) -> None:
    two(home)

    assert home("context", "remove", "prod").exit_code == 0
    assert home.reaches().startswith("RCV-4004")
    assert home("context", "list", "-o", "name").stdout == "dev\n"


def test_without_brokers_a_context_looks_through_the_daemon(home: Home) -> None:
    assert home("context", "add", "far", "--http", "127.0.0.1:1").exit_code == 0

    result = run_with(Tools(), "list", env=home.env)

    assert result.exit_code == 1
    assert result.stderr.startswith("RCV-2011 No daemon answers at http://127.0.0.1:1")


@pytest.mark.parametrize("args", [("top",), ("lag",), ("logs", RUNNING.id)])
def test_a_daemon_on_this_machine_is_not_taken_for_that_of_a_context_with_brokers(
    home: Home, args: tuple[str, ...]
) -> None:
    two(home)

    backend = ScriptedBackend({RUNNING.id: to_document(RUNNING) | {"attempt": 1}})

    result = run(backend, *args, "--context", "prod", env=home.env)

    assert result.exit_code == 2
    assert result.stderr.startswith("RCV-4008 The context `prod` does not say where its daemon answers.")
    assert "--http" in result.stderr


def test_doctor_asks_no_daemon_where_the_context_names_none(home: Home) -> None:
    home("context", "add", "dev", "-b", "127.0.0.1:1")

    result = run_with(Tools(), "doctor", "--context", "dev", "--timeout", "300ms", "-o", "json", env=home.env)

    rows = {row["check"]: row for row in json.loads(result.stdout)}
    assert {rows[name]["verdict"] for name in ("daemon", "clock of the daemon")} == {"skipped"}
    assert "--http" in rows["daemon"]["next_step"]
    assert rows["config"]["found"] == f"the context `dev`, {home.contexts / 'dev.yaml'}"


def test_what_was_checked_for_a_config_is_named_where_it_was_a_context(home: Home) -> None:
    two(home)

    said = home("config", "validate").stderr

    assert said.startswith(f"The config is good: the context `prod`, {home.contexts / 'prod.yaml'}. Clusters: main.")


def test_verbose_says_which_brokers_and_why(home: Home) -> None:
    two(home)

    assert "Brokers: dev:9092 (context dev)." in home.reaches("--context", "dev", "-v") + _stderr(home)


def _stderr(home: Home) -> str:
    def open_backend(connection: Connection) -> ScriptedBackend:
        assert connection.settings
        return ScriptedBackend()

    return run_with(Tools(open_backend=open_backend), "list", "--context", "dev", "-v", env=home.env).stderr


def values_in(file: Path) -> dict[str, str]:
    return {name: found.value for name, found in read_properties(file).items()}


def test_java_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("! note\n\na=1\nb : two words\nc = x\\\n   y\nd=a\\=b\n")

    assert values_in(file) == {"a": "1", "b": "two words", "c": "xy", "d": "a=b"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a 1\nb\t2\nc:=3", {"a": "1", "b": "2", "c": "=3"}),
        (r"a=x\ty\nz\u0041\\u", {"a": "x\ty\nzA\\u"}),
        (r"a\ b\=c\:d = e", {"a b=c:d": "e"}),
        ("a=one\\\\\nb=two", {"a": "one\\", "b": "two"}),
        ("a=one\\\n\\\n  two\n# b=3\\\nc=4", {"a": "onetwo", "c": "4"}),
        ("a=\nb = trailing ", {"a": "", "b": "trailing "}),
        (r"password=p\#w\!d#1", {"password": "p#w!d#1"}),
        ("a=first\na=last\n", {"a": "last"}),
        ("a=goes on\\", {"a": "goes on"}),
    ],
)
def test_escapes_separators_and_lines_that_go_on_mean_what_they_mean_to_java(
    tmp_path: Path, text: str, found: dict[str, str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(text.encode())
    assert values_in(file) == found


@pytest.mark.parametrize("text", ["hunter2\n", '"hunter2";\n', "=hunter2\n", "hunter2=\\u12\n"])
def test_what_java_would_not_take_or_nobody_means_is_refused_by_line_and_not_shown(
    home: Home, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# login\n\na=1\n{text}")
    result = home("context", "add", "x", "--properties", str(file))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"RCV-4008 {file}:4 has ")
    assert "hunter2" not in result.stderr


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("client.rack=a\nsasl.mechanism=PLAIN\n", ":2: ", "sasl.mechanism has no effect with"),
        (f"# login\n\nsasl.jaas.config=\\\n  {LOGIN.format('hunter2')}\n", ":3: ", "sasl.jaas.config has no effect"),
        ("key.serializer=org.Hunter2\n", ":1: ", "key.serializer is not a client property"),
        ("a=hunter2\\\nb\nsecurity.protocol=SASL_PLAINTEXT\n", ":1: ", "a is not a client property"),
        (
            "\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x hunter2\n",
            ":4: ",
            "is missing or",
        ),
        ("ssl.key.password=hunter2\n", ":1: ", "ssl.key.password has no effect with"),
        ("ssl.key.password=${file:/nowhere/secret}\n", ":1: ", "ssl.key.password is not usable: "),
        ("request.timeout.ms=1\nrequest.timeout.ms=soon\n", ":2: ", "request.timeout.ms 'soon' is not a whole number"),
    ],
)
def test_a_property_of_a_file_that_is_not_taken_is_named_by_its_line_there(
    home: Home, tmp_path: Path, text: str, place: str, said: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)

    result = home("context", "add", "x", "-b", "b:1", "--properties", str(file))

    assert result.exit_code == 2
    assert f" {file}{place}" in result.stderr.splitlines()[0]
    assert said in result.stderr
    assert not any(word in result.stderr for word in ("clusters.main", "x.yaml", "hunter2", "Hunter2"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-b", "b:1", "--property", "sasl.mechanism=PLAIN"), "RCV-4003 --property sasl.mechanism has no effect with"),
        (
            ("-b", "b:1", "--property", "key.serializer=x"),
            "RCV-4002 --property key.serializer is not a client property",
        ),
        (("-b", "b"), "RCV-4003 --bootstrap: bootstrap.servers 'b' is not HOST:PORT."),
        (("-b", "b:1", "--topics-prefix", "a b"), "RCV-4003 --topics-prefix: topics.prefix"),
    ],
)
def test_a_flag_that_is_not_taken_is_named_as_it_was_typed(home: Home, args: tuple[str, ...], said: str) -> None:
    result = home("context", "add", "x", *args)

    assert result.exit_code == 2
    assert result.stderr.startswith(said)
    assert not any(word in result.stderr for word in ("clusters.main", "x.yaml"))


def test_a_name_that_is_like_the_place_of_a_property_is_told_as_it_is(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "clusters.main.d"
    folder.mkdir()
    file = folder / "clusters.main.properties"
    file.write_text("a=1\n")
    by_file = home("context", "add", "x", "-b", "b:1", "--properties", str(file))
    gone = ("--property", f"ssl.key.password=${{file:{folder}/clusters.main.key}}")
    by_flag = home("context", "add", "x", "-b", "b:1", "--property", "security.protocol=SSL", *gone)
    by_brokers = home("context", "add", "x", "-b", "clusters.main.brokers")

    assert by_file.stderr.startswith(f"RCV-4002 {file}:1: a is not a client property")
    assert f"{folder}/clusters.main.key" in by_flag.stderr
    assert by_flag.stderr.startswith("RCV-4003 --property ssl.key.password is not usable: ")
    assert by_brokers.stderr.startswith("RCV-4003 --bootstrap: bootstrap.servers 'clusters.main.brokers' is not HOST")


def test_one_spoiled_context_costs_its_own_line_only(home: Home) -> None:
    two(home)
    (home.contexts / "dev.yaml").write_text("properties: [1]\n")
    listed, rows = home("context", "list"), home("context", "list", "-o", "json")
    assert (listed.exit_code, rows.exit_code) == (0, 0)
    assert "prod:9092" in listed.stdout
    assert "cannot be read" in listed.stdout
    assert "context add dev --replace" in listed.stderr
    told = {row["name"]: row["problem"] for row in json.loads(rows.stdout)}
    assert told["prod"] is None
    assert "is no context" in told["dev"]


def test_a_truststore_that_is_not_there_is_a_mistake_in_the_config(home: Home, tmp_path: Path) -> None:
    gone = tmp_path / "gone.pem"
    options = ("security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={gone}")
    added = home("context", "add", "tls", "-b", "127.0.0.1:1", *(w for o in options for w in ("--property", o)))
    assert added.exit_code == 0, added.stderr
    result = run_with(Tools(), "list", env=home.env)
    assert (result.exit_code, result.stderr.split()[0]) == (2, "RCV-4003")
    assert str(gone) in result.stderr
    assert "ssl.truststore.location" in result.stderr


def test_a_path_in_a_context_means_the_same_wherever_the_command_line_runs(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("typed", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "typed/secret").write_text("hunter2\n")
    pairs = (
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        "ssl.truststore.location=ca.pem",
        f"sasl.jaas.config={LOGIN.format('${file:secret}')}",
    )
    monkeypatch.chdir(tmp_path / "typed")
    added = home("context", "add", "prod", "-b", "b:1", *(word for pair in pairs for word in ("--property", pair)))
    assert added.exit_code == 0, added.stderr
    monkeypatch.chdir(tmp_path / "elsewhere")

    found = home.client_properties("prod")

    assert (found["sasl.password"], found["ssl.ca.location"]) == ("hunter2", str(tmp_path / "typed/ca.pem"))


def test_a_path_that_was_written_into_a_context_is_relative_to_its_file(home: Home) -> None:
    home.contexts.mkdir(parents=True)
    (home.contexts / "tls.yaml").write_text(
        "properties: {bootstrap.servers: 'b:1', security.protocol: SSL, ssl.truststore.location: ca.pem}\n"
    )
    assert home.client_properties("tls")["ssl.ca.location"] == str(home.contexts / "ca.pem")

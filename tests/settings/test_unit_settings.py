"""Units in the config: what may stand there, from which file it comes, and what they become for the rules."""

from pathlib import Path

import pytest

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings import Settings, load
from recoveryd.units.model import Behaviour, ClauseName, ControlKind, Output, Unit, UnitKind
from tests.units.test_topology import TEXTS, topology

MINIMAL = "clusters: {main: {bootstrap.servers: 127.0.0.1:9092}}\n"
WORDS = "kind: streams\ngroup: words\ninputs: [words]\n"


def loaded(tmp_path: Path, text: str, **files: str) -> Settings:
    (tmp_path / "units").mkdir(exist_ok=True)
    for name, content in files.items():
        (tmp_path / "units" / f"{name}.yaml").write_text(content)
    path = tmp_path / "c.yaml"
    path.write_text(MINIMAL + text)
    return load(path, env={})


def problem(tmp_path: Path, text: str, **files: str) -> ConfigProblem:
    with pytest.raises(ConfigProblem) as caught:
        loaded(tmp_path, text, **files).units()
    return caught.value


def test_a_whole_unit(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text((TEXTS / "word-count.txt").read_text())
    text = """
units:
  order-processor:
    kind: streams
    cluster: main
    group: order-app
    inputs: [orders, customers]
    intermediate: [cleaned]
    outputs: {customer-totals: {behaviour: idempotent, owner: billing}, audit:}
    internal_topics: auto
    topology: words.txt
    stateful: true
    owner: orders-team
    approvers: ["//ops/kim", "//ops/lee"]
    retention_objective: 72h
    required_clauses: [schema, offsets]
    sink_behaviour: append_only
    control: {kind: process, start: [java, -jar, app.jar], stop_timeout: 30s}
"""
    settings = loaded(tmp_path, text)
    assert settings.units() == {
        "order-processor": Unit(
            name="order-processor",
            kind=UnitKind.STREAMS,
            cluster="main",
            group="order-app",
            inputs=("orders", "customers"),
            intermediate=("cleaned",),
            outputs={"customer-totals": Output(Behaviour.IDEMPOTENT, "billing"), "audit": Output()},
            topology=topology("word-count"),
            stateful=True,
            owner="orders-team",
            approvers=("//ops/kim", "//ops/lee"),
            retention_objective_ms=72 * 3_600_000,
            control=ControlKind.PROCESS,
            stop_timeout_ms=30_000,
            required_clauses=(ClauseName.SCHEMA, ClauseName.OFFSETS),
            sink_behaviour=Behaviour.APPEND_ONLY,
        )
    }
    assert settings.values.units["order-processor"].control.start == ("java", "-jar", "app.jar")


def test_little_is_needed(tmp_path: Path) -> None:
    unit = loaded(tmp_path, "units: {a: {kind: group, group: g, inputs: [orders]}}\n").units()["a"]
    assert unit == Unit("a", UnitKind.GROUP, "main", "g", ("orders",))
    assert unit.own_topics == {"orders"}


@pytest.mark.scenario("S-RUN-8")
@pytest.mark.parametrize("kind", list(UnitKind))
def test_each_kind_of_unit_can_be_described(tmp_path: Path, kind: UnitKind) -> None:
    unit = loaded(tmp_path, f"units: {{a: {{kind: {kind.value}, group: g, inputs: [orders]}}}}\n").units()["a"]
    assert (unit.kind, unit.group, unit.inputs) == (kind, "g", ("orders",))


def test_a_file_each_beside_those_of_the_config(tmp_path: Path) -> None:
    text = "units_dir: units\nunits: {a: {kind: group, group: g, inputs: [x]}}\n"
    settings = loaded(tmp_path, text, words=WORDS, **{".hidden": "no: yaml: at all"})
    assert sorted(settings.units()) == ["a", "words"]
    shown = {line.key: line.origin for line in settings.show()}
    assert shown["units.words.group"] == f"{tmp_path / 'units' / 'words.yaml'}:2"


def test_a_topology_lies_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "t.txt").write_text((TEXTS / "windows.txt").read_text())
    units = loaded(tmp_path, "units_dir: units\n", words=f"{WORDS}topology: t.txt\n").units()
    assert units["words"].topology == topology("windows")


def test_a_unit_may_be_given_once(tmp_path: Path) -> None:
    found = problem(tmp_path, "units_dir: units\nunits: {words: {kind: group, group: g, inputs: [x]}}\n", words=WORDS)
    assert (found.key, found.line) == ("units.words", 3)
    assert "given twice" in str(found)


@pytest.mark.parametrize(
    ("extra", "line", "says", "hint"),
    [
        ("inptus: [x]", 4, "There is no key units.words.inptus", "units.words.inputs"),
        ("outputs: {o: {behavior: idempotent}}", 4, "no key units.words.outputs.o.behavior", "behaviour"),
        ("outputs: {o: {behaviour: idempotant}}", 4, "should be 'idempotent', 'transactional' or 'append_only'", ""),
        ("control: {kind: proces}", 4, "should be 'manual'", ""),
        ("control: {kind: process}", 4, "start is needed where kind is process", ""),
        ("control: {kind: manual, url: 'http://x'}", 4, "url has no meaning where kind is manual", ""),
        ("control: {kind: connect, url: 'http://x'}", 1, "control.kind connect is for connectors", ""),
        ("control: {kind: webhook, webhook: w, status_url: 'http://x/s'}", 0, "names the webhook 'w'", ""),
        ("outputs: {words: {}}", 1, "words stands in inputs and outputs", ""),
        ("intermediate: [a, a]", 1, "a stands in intermediate twice", ""),
        ("cluster: dr", 0, "names the cluster 'dr'", ""),
        ("retention_objective: soon", 4, "retention_objective", ""),
        ("topology: lost.txt", 4, "No such file", ""),
        ("topology: ~no-such-user/t.txt", 4, "units.words.topology names a file or folder that cannot be", ""),
        ('topology: "a\\0b"', 4, "units.words.topology names a file or folder that cannot be", ""),
        ("stateful: perhaps", 4, "stateful", ""),
        ("required_clauses: [luck]", 4, "required_clauses", ""),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, extra: str, line: int, says: str, hint: str) -> None:
    found = problem(tmp_path, "units_dir: units\n", words=f"{WORDS}{extra}\n")
    assert says in str(found)
    assert hint in (found.hint or "")
    assert (found.line, found.origin) == (line, str(tmp_path / "units" / "words.yaml") if line else "")


def test_a_text_that_is_no_topology_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("Sub-topology: 0\n  what\n")
    found = problem(tmp_path, "units: {w: {kind: streams, group: w, inputs: [x], topology: t.txt}}\n")
    assert "t.txt: line 2 is no source" in str(found)
    assert "describe()" in (found.hint or "")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = problem(tmp_path, "units_dir: nowhere\n")
    assert (found.code, found.line) == (Code.CONFIG_INVALID, 2)
    assert "nowhere: No such file" in str(found)


@pytest.mark.parametrize("folder", ["~no-such-user/units", '"a\\0b"', '"a\\uD800b"', '"~a\\0b/units"'])
def test_a_folder_that_cannot_be_is_named_with_its_line(tmp_path: Path, folder: str) -> None:
    found = problem(tmp_path, f"units_dir: {folder}\n")
    assert (found.code, found.key, found.line) == (Code.CONFIG_INVALID, "units_dir", 2)
    assert "cannot be" in str(found)


def test_unknown_inputs_need_a_connector(tmp_path: Path) -> None:
    assert "inputs needs at least one topic" in str(problem(tmp_path, "units: {w: {kind: group, group: w}}\n"))
    text = "units: {w: {kind: connect, group: w, control: {kind: connect, url: 'http://c:8083'}}}\n"
    assert loaded(tmp_path, text).units()["w"].inputs == ()

"""What `-f` makes of a document, and what it refuses to guess."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.send.documents import read_file
from recoveryd.wire.bounded_json import parse
from tests.cli.scripted import ScriptedBackend, run


def read(folder: Path, text: str) -> dict[str, Any]:
    file = folder / "recovery.yaml"
    file.write_text(text, encoding="utf-8")
    return read_file(file, "It holds a command.")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("10", 10), ("0", 0), ("-5", -5), ("+5", 5), ("1_000_000", 1_000_000), ("1.5", 1.5), (".5", 0.5), ("1.5e+3", 1500.0),
        ("true", True), ("no", False), ("", None), ("~", None),
        ("2026-11-21", "2026-11-21"), ("2026-11-21T06:00:00Z", "2026-11-21T06:00:00Z"), ("-2h", "-2h"),
        ("'010'", "010"), ('"1:30"', "1:30"), ("1e3", "1e3"), ("0o17", "0o17"), ("v1", "v1"), ("!!str 010", "010"),
        ("[1, {on: off}]", [1, {"on": False}]),
    ],
)  # fmt: skip
def test_what_is_meant_is_taken(tmp_path: Path, written: str, meant: object) -> None:
    assert read(tmp_path, f"a:\n  b: {written}\n") == {"a": {"b": meant}}


@pytest.mark.parametrize(
    "written",
    [
        "010", "-010", "00", "0x1F", "0b11", "1:30", "12:30:00", "1:30.5", "1_0", "0_1", "010.5", "1_000.5", ".inf", "-.INF", ".nan",
        "1.0e+400", "9" * 101, "!!int '010'", "!!int x", "!!bool x", "!!float x", "!!binary aGk=", "!!timestamp 2026-11-21",
        "!!set {a}", "!!omap [a: 1]", "!!python/name:os.system x", "!mine x", "=",
    ],
)  # fmt: skip
def test_what_may_mean_something_else_is_refused_by_line_and_key_and_not_repeated(tmp_path: Path, written: str) -> None:
    with pytest.raises(Failure) as caught:
        read(tmp_path, f"a: 1\nb:\n  offset: {written}\n")
    assert caught.value.exit_code is ExitCode.USAGE
    assert "recovery.yaml:3: `offset` is " in caught.value.message
    assert written not in caught.value.message


@pytest.mark.parametrize("key", ["on", "yes", "010", "1.0", "null", "2026-11-21", "'0'", "0", "=", "~", "1:30"])
def test_a_key_is_the_text_that_stands_there(tmp_path: Path, key: str) -> None:
    assert read(tmp_path, f"offsets: {{{key}: 5}}\n{key}: 6\n") == {"offsets": {key.strip("'"): 5}, key.strip("'"): 6}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limits: {a: 1}\nb: 2\nlimits: {c: 1}\n", "recovery.yaml:3: `limits` is given twice, first in line 1"),
        ("a:\n  - b: 1\n    c: 2\n    b: 1\n", "recovery.yaml:4: `b` is given twice, first in line 2"),
        ('{"a": 1,\n "a": 1}', "recovery.yaml:2: `a` is given twice, first in line 1"),
        ("o: {0: 1, '0': 2}\n", "`0` is given twice"),
        ("b: {<<: &x {a: 1, a: 2}}\n", "`a` is given twice"),
        ("b: {<<: {a: 1}, <<: {a: 2}}\n", "`<<` is given twice"),
        ("b: {<<: 1}\n", "is no mapping"),
        ("? [a]\n: 1\n", "recovery.yaml:1: a key is no plain word"),
        ('{"offset": 010}', "`offset` is no plain decimal number"),
        ("a: *b\n", "no YAML"),
        ("a: 1\n---\nb: 2\n", "no YAML"),
        ("a: &x [*x]\n", "nested too deeply"),
        ("a: " + "[" * 3_000, "nested too deeply"),
        ("a: \0\n", "no YAML"),
        ("", "no mapping"),
    ],
)
def test_what_says_two_things_or_none_is_refused_by_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Failure) as caught:
        read(tmp_path, text)
    assert (caught.value.exit_code, said in caught.value.message) == (ExitCode.USAGE, True), caught.value.message


def test_what_is_merged_gives_way_to_what_stands_there(tmp_path: Path) -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: [*b, *a], z: 3}\nd: {<<: *b}\n"
    one, two = {"x": 1, "y": 1}, {"x": 1, "y": 2}
    assert read(tmp_path, text) == {"a": one, "b": two, "c": {**two, "z": 3}, "d": two}


@pytest.mark.parametrize("merge", ["", "<<: "])
def test_a_small_file_that_means_a_huge_one_is_refused_at_once(tmp_path: Path, merge: str) -> None:
    lines = ["a0: &a0 {k: v}"]
    for level in range(1, 12):
        parts = ", ".join([f"*a{level - 1}"] * 12)
        lines.append(f"a{level}: &a{level} {{{merge or 'k: '}[{parts}]}}")
    began = time.process_time()
    with pytest.raises(Failure) as caught:
        read(tmp_path, "\n".join(lines))
    assert "more than 100,000 values" in caught.value.message
    assert time.process_time() - began < 30


@pytest.mark.parametrize(
    "text",
    [
        '{"limits": {"max_bytes_per_s": 1e6}, "n": -0.5E-2}',
        '{\t"a":\t"\\ud83d\\ude00\\/"}',
        '\n {"a": [1, null, true, "on", "010"]}\n',
    ],
)
def test_json_means_what_it_means_as_a_record(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == parse(text.encode())


def test_a_cap_that_is_given_beside_others_is_not_dropped() -> None:
    source = {"topic": "a", "from": "earliest", "to": "latest"}
    text = json.dumps({"source": source, "target": {"topic": "b"}, "reason": "r"})[:-1]
    text += ', "limits": {"max_records": 10},\n "limits": {"weight": 2}}'
    backend = ScriptedBackend()
    result = run(backend, "replay", "-f", "-", "--yes", typed=text)
    assert (result.exit_code, backend.sent) == (2, [])
    assert result.stderr.startswith("RCV-4008 -:2: `limits` is given twice, first in line 1.")


@pytest.mark.parametrize(
    "secret", ["*hunter2", "!hunter2!x", "[hunter2", "'hunter2", "&hunter2 &hunter2 x", "hunter2: hunter2"]
)
def test_what_is_no_yaml_is_told_without_the_text_that_stands_there(tmp_path: Path, secret: str) -> None:
    with pytest.raises(Failure) as refused:
        read(tmp_path, f"properties:\n  sasl.password: {secret}\n  b: 1\n")

    assert "recovery.yaml:" in refused.value.message
    assert "hunter2" not in f"{refused.value.message} {refused.value.hint}"

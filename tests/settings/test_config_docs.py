"""The config reference is complete and correct: every option, with its real default and one line about it."""

import itertools
from pathlib import Path

import yaml

from recoveryd.settings import load, schema
from recoveryd.settings.sources import read_file
from recoveryd.settings.view import leaves
from tools.config_reference import FILE


def test_the_reference_loads_and_changes_nothing() -> None:
    written, default = load(FILE, env={}), load(env={}, bootstrap="127.0.0.1:9092")
    assert written.values == default.values


def test_the_reference_has_every_option_and_no_other() -> None:
    default = load(env={}, bootstrap="127.0.0.1:9092").values.model_dump(mode="json")
    assert dict(leaves(read_file(FILE).values, ())) == dict(leaves(default, ()))


def test_each_option_in_the_reference_has_its_line() -> None:
    lines = FILE.read_text().splitlines()
    without = [
        line
        for before, line in itertools.pairwise(lines)
        if line.strip() and not line.lstrip().startswith("#") and not before.lstrip().startswith("#")
    ]
    # A section's first key follows the section's own line; named things have no line.
    assert without == ["  main:", "  default:"]


def test_the_schema_describes_each_option() -> None:
    described = schema()
    for name, option in described["properties"].items():
        assert option.get("description"), name
    for name, section in described["$defs"].items():
        for option, detail in section.get("properties", {}).items():  # an enum has none
            assert detail.get("description"), f"{name}.{option}"


def test_the_start_of_the_contract_is_enough_of_a_config(tmp_path: Path) -> None:
    path = tmp_path / "three-lines.yaml"
    path.write_text(yaml.safe_dump({"clusters": {"main": {"bootstrap.servers": "127.0.0.1:9092"}}}))
    assert load(path, env={}).values == load(FILE, env={}).values

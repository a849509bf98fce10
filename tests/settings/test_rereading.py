"""The units of a config that is read again have to fit what the daemon started with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from recoveryd.errors import ConfigProblem
from recoveryd.settings import Settings, load
from recoveryd.settings.rereading import units_again
from recoveryd.units.approvals import ApprovalBy, ApprovalRule

UNIT: dict[str, Any] = {"kind": "group", "group": "app", "inputs": ["orders"]}
PROCESS = {"kind": "process", "start": ["true"]}


def settings(
    folder: Path, *, dr: bool = False, rules: Sequence[dict[str, Any]] = (), **units: dict[str, Any]
) -> Settings:
    (folder / "units.d").mkdir(exist_ok=True)
    for old in (folder / "units.d").iterdir():
        old.unlink()
    for name, unit in units.items():
        (folder / "units.d" / f"{name}.yaml").write_text(yaml.safe_dump(unit))
    clusters = {name: {"bootstrap.servers": "h:1"} for name in ("main", *(["dr"] if dr else []))}
    path = folder / "c.yaml"
    path.write_text(yaml.safe_dump({"clusters": clusters, "units_dir": "units.d", "approvals": list(rules)}))
    return load(path, env={})


def test_new_changed_and_removed_units_are_taken(tmp_path: Path) -> None:
    before = settings(tmp_path, one=UNIT, two=UNIT)
    found = units_again(before, settings(tmp_path, two=UNIT | {"owner": "team"}, three=UNIT))
    assert {name: unit.owner for name, unit in found.units.items()} == {"two": "team", "three": None}


def test_a_rule_that_was_written_with_a_new_unit_is_taken_with_it(tmp_path: Path) -> None:
    before = settings(tmp_path, one=UNIT)
    found = units_again(before, settings(tmp_path, rules=[{"units": ["payouts"], "by": "owner"}], payouts=UNIT))
    assert (set(found.units), found.approvals) == ({"payouts"}, (ApprovalRule(ApprovalBy.OWNER, units=("payouts",)),))
    assert units_again(before, settings(tmp_path, one=UNIT)).approvals == ()


def test_control_that_stays_as_it_is_may_stay(tmp_path: Path) -> None:
    before = settings(tmp_path, one=UNIT | {"control": PROCESS})
    assert units_again(before, settings(tmp_path, one=UNIT | {"control": PROCESS, "owner": "team"})).units.keys() == {
        "one"
    }
    assert units_again(before, settings(tmp_path)).units == {}


@pytest.mark.parametrize(
    ("unit", "dr", "key"),
    [
        (UNIT | {"cluster": "dr"}, True, "units.one.cluster"),
        (UNIT | {"control": PROCESS}, False, "units.one.control"),
    ],
)
def test_what_needs_a_restart_is_refused_with_its_place(tmp_path: Path, unit: Any, dr: bool, key: str) -> None:
    before = settings(tmp_path, one=UNIT)
    with pytest.raises(ConfigProblem) as refused:
        units_again(before, settings(tmp_path, dr=dr, one=unit))
    assert refused.value.key == key
    assert "one.yaml" in str(refused.value)
    assert refused.value.hint.startswith("Restart")


def test_a_connector_under_control_keeps_its_name(tmp_path: Path) -> None:
    unit = {"kind": "connect", "group": "app", "control": {"kind": "connect", "url": "http://h:8083"}}
    before = settings(tmp_path, one=unit)
    assert units_again(before, settings(tmp_path, one=unit | {"owner": "team"})).units.keys() == {"one"}
    with pytest.raises(ConfigProblem) as refused:
        units_again(before, settings(tmp_path, one=unit | {"group": "another"}))
    assert refused.value.key == "units.one.group"
    assert refused.value.hint.startswith("Restart")

"""`approvals` of the config: rules in order, and names that must be known."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from recoveryd.errors import ConfigProblem
from recoveryd.settings import Settings, load
from recoveryd.units.approvals import ApprovalBy, ApprovalRule, ApprovedVerb, OutputKind


def settings(folder: Path, *rules: dict[str, Any]) -> Settings:
    unit = {"kind": "group", "group": "app", "inputs": ["orders"]}
    clusters = {"main": {"bootstrap.servers": "h:1"}}
    path = folder / "c.yaml"
    path.write_text(yaml.safe_dump({"clusters": clusters, "units": {"one": unit}, "approvals": list(rules)}))
    return load(path, env={})


def test_rules_are_taken_in_their_order(tmp_path: Path) -> None:
    full = {"verbs": ["reset"], "units": ["one", "x-*"], "outputs": ["append_only", "undeclared"], "by": "owner"}
    assert settings(tmp_path, full, {"by": "nobody"}).params().recoveries.approvals == (
        ApprovalRule(
            ApprovalBy.OWNER,
            frozenset({ApprovedVerb.RESET}),
            ("one", "x-*"),
            frozenset({OutputKind.APPEND_ONLY, OutputKind.UNDECLARED}),
        ),
        ApprovalRule(ApprovalBy.NOBODY),
    )
    assert settings(tmp_path).params().recoveries.approvals == ()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"by": "nobody", "units": ["two"]}, "approvals.0 names the unit 'two'"),
        ({"by": "boss"}, "owner_or_approvers"),
        ({"verbs": ["reset"]}, "by"),
        ({"by": "nobody", "verbs": ["replay"]}, "reprocess"),
        ({"by": "nobody", "outputs": ["append-only"]}, "append_only"),
        ({"by": "nobody", "unit": "one"}, "units"),
    ],
)
def test_what_is_no_rule_is_refused(tmp_path: Path, rule: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigProblem) as refused:
        settings(tmp_path, rule)
    assert said in f"{refused.value} {refused.value.hint}"

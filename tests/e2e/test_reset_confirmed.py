"""What has to be said before a reset, on a real broker: the four confirmations, what becomes of state, and
the contract of the unit.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.committing_group import BEFORE, Group, at
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

SAID = {"outputs": "two hours of totals are made again; readers drop doubles by id"}


def totals(of: str) -> dict[str, Any]:
    """An output that no other unit has; else the approvers of that one would be asked as well."""
    return {f"totals-{of}": {"behaviour": "append_only"}}


UNITS: dict[str, dict[str, Any]] = {
    "strict": {"approvers": ["//ops/kim"], "outputs": totals("strict"), "confirmations": "required"},
    "nobodys": {"outputs": totals("nobodys"), "confirmations": "required"},
    "asked": {"outputs": totals("asked"), "confirmations": "asked"},
    "keeps": {"outputs": {}, "stateful": True},
    "promised": {"outputs": totals("promised"), "schema": "one subject each"},
    "strict-contract": {"outputs": totals("strict-contract"), "required_clauses": ["offsets", "determinism"]},
}


@pytest.fixture(scope="module")
def groups(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Group]]:
    """One group for each unit; the daemon has both."""
    folder = tmp_path_factory.mktemp("stack")
    with Stack(bootstrap, folder) as quiet:
        made = {name: Group(bootstrap, quiet) for name in UNITS}
        units = {
            name: {"kind": "group", "group": made[name].group, "inputs": [made[name].topic], **more}
            for name, more in UNITS.items()
        }
        with Stack(bootstrap, folder / "strict", {"units": units}) as stack:
            for group in made.values():
                group.stack = stack
            yield made


@pytest.fixture(scope="module", autouse=True)
def daemon(groups: dict[str, Group]) -> Iterator[DaemonProcess]:
    with groups["strict"].stack.running() as leading:
        yield leading


def reset(group: Group, run: str, unit: str, to: Any, **more: Any) -> str:
    return group.stack.control.command("reset", run, {"reason": "r", "unit": unit, "to": to, **more})


@pytest.mark.scenario("S-RUN-27", "S-RUN-31")
@pytest.mark.parametrize(
    ("unit", "to", "more", "item"),
    [
        ("strict", {"offset": 10}, {}, "outputs"),
        ("strict", {"offset": 10}, {"confirm": {"scope": "all"}}, "outputs"),
        ("strict", {"offset": 101}, {"confirm": SAID, "on_out_of_range": "clamp"}, "retention"),
        ("nobodys", {"offset": 10}, {"confirm": SAID}, "owner"),
    ],
)
def test_where_they_are_required_a_missing_one_is_refused_and_nothing_is_set(
    groups: dict[str, Group], unit: str, to: Any, more: dict[str, Any], item: str
) -> None:
    group = groups[unit]
    answer = group.stack.follower.wait_answer(reset(group, f"refused-{unit}-{item}-{len(more)}", unit, to, **more))
    assert (answer["type"].split(".")[3], answer["data"]["code"]) == ("command_rejected", "RCV-1048")
    assert answer["data"]["message"].startswith(f"{item} is not confirmed")
    assert group.committed() == BEFORE


@pytest.mark.scenario("S-RUN-27", "S-RUN-31")
def test_with_all_four_an_approver_lets_it_run(groups: dict[str, Group]) -> None:
    group = groups["strict"]
    reset(group, "whole", "strict", {"offset": 10}, confirm=SAID)
    plan = group.stack.follower.wait_state("whole", "awaiting_approval")["plan"]
    assert {each["item"]: each["by"] for each in plan["confirmations"]} == {
        "retention": "plan", "outputs": "person", "scope": "plan", "owner": "plan",
    }  # fmt: skip
    assert group.committed() == BEFORE
    group.stack.control.command("approve", "whole", {"reason": "r", "plan_hash": plan["hash"]}, source="//ops/kim")
    group.done("whole")
    assert group.committed() == at(10)


@pytest.mark.scenario("S-RUN-27")
def test_else_a_person_is_asked_and_the_answer_is_kept(groups: dict[str, Group]) -> None:
    group = groups["asked"]
    reset(group, "asks", "asked", {"offset": 10})
    waiting = group.stack.follower.wait_state("asks", "waiting")
    assert (waiting["waiting_for"]["kind"], waiting["waiting_for"]["step"]) == ("ack", "confirm_output")
    assert group.committed() == BEFORE
    said = {"reason": "r", "step": "confirm_output", "note": SAID["outputs"]}
    group.stack.control.command("ack", "asks", said)
    steps = group.done("asks")["steps"]
    assert SAID["outputs"] in steps[0]["why"]
    assert group.committed() == at(10)


@pytest.mark.scenario("S-RUN-6")
def test_a_stateful_unit_is_set_back_only_with_a_word_about_its_state(groups: dict[str, Group]) -> None:
    group = groups["keeps"]
    for run, more in (("bare", {}), ("bare-plan", {"dry_run": True})):
        answer = group.stack.follower.wait_answer(reset(group, run, "keeps", {"offset": 10}, **more))
        assert (answer["type"].split(".")[3], answer["data"]["code"]) == ("command_rejected", "RCV-1006")
        assert answer["data"]["message"].startswith("state: nothing is said about the state of keeps")
        assert "`state: keep`" in answer["data"]["hint"]
    by_its_group = group.stack.follower.wait_answer(group.reset("bare-group", {"offset": 10}))
    assert by_its_group["data"]["code"] == "RCV-1006"
    assert group.committed() == BEFORE
    reset(group, "kept", "keeps", {"offset": 10}, state="keep")
    plan = group.done("kept")["plan"]
    assert any(finding.startswith("the state of keeps stays as it is") for finding in plan["findings"])
    assert group.committed() == at(10)
    reset(group, "cleaned", "keeps", {"offset": 20}, state="clean")
    waiting = group.stack.follower.wait_state("cleaned", "waiting")
    assert (waiting["waiting_for"]["kind"], waiting["waiting_for"]["step"]) == ("ack", "clean_local_state")
    group.stack.control.command("ack", "cleaned", {"reason": "r", "step": "clean_local_state", "note": "emptied"})
    group.done("cleaned")
    assert group.committed() == at(20)


@pytest.mark.scenario("S-RUN-9")
def test_each_plan_looks_at_the_contract_and_is_refused_where_a_clause_is_required(groups: dict[str, Group]) -> None:
    group, strict = groups["promised"], groups["strict-contract"]
    follower, control = group.stack.follower, group.stack.control
    bad = ["retention", "determinism", "output_idempotence"]

    def copy(run: str, of: Group) -> str:
        source = {"topic": of.topic, "from": "earliest", "to": "latest"}
        target = {"topic": f"{of.topic}-again", "create": True}
        return control.command("replay", run, {"reason": "r", "source": source, "target": target, "dry_run": True})

    reset(group, "looks", "promised", {"offset": 10}, dry_run=True)
    copy("copies", group)
    plans = [follower.wait_state(run, "planned")["plan"] for run in ("looks", "copies")]
    for plan in plans:
        (contract,) = plan["contracts"]
        assert contract["unit"] == "promised"
        assert [c["name"] for c in contract["clauses"] if c["state"] != "ok"] == bad
    assert plans[0]["contracts"][0]["version"] == plans[1]["contracts"][0]["version"]
    told = [
        f
        for f in plans[0]["findings"]
        if f"of the contract of promised (version {plan['contracts'][0]['version']})" in f
    ]
    assert [finding.split(" ")[0] for finding in told] == bad
    warned = [f for f in plans[1]["findings"] if f["code"].startswith("contract_")]
    assert [(f["code"], f["severity"]) for f in warned] == [(f"contract_{name}", "warn") for name in bad]
    for refused in (reset(strict, "open", "strict-contract", {"offset": 10}), copy("open-copy", strict)):
        data = follower.wait_answer(refused)["data"]
        assert data["code"] == "RCV-1049"
        assert data["message"].startswith("determinism of the contract of strict-contract (version ")
    assert strict.committed() == BEFORE

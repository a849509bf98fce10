"""Who has to approve what: one row per situation, and the one who asked never."""

from dataclasses import replace

import pytest

from recoveryd.units.approvals import ApprovalBy, ApprovalRule, ApprovedVerb, OutputKind, approval_for
from recoveryd.units.model import Behaviour, Output, Unit, UnitKind

UNIT = Unit(
    "orders-eu",
    UnitKind.STREAMS,
    "main",
    "app",
    ("in",),
    outputs={"log": Output(Behaviour.APPEND_ONLY), "table": Output(Behaviour.IDEMPOTENT), "new": Output()},
    owner="//team/orders",
    approvers=("//ops/kim", "//ops/lee"),
)
KIM_OR_LEE = UNIT.approvers
BARE = replace(UNIT, owner=None, approvers=())
NOBODY, OWNER = ApprovalRule(ApprovalBy.NOBODY), ApprovalRule(ApprovalBy.OWNER)
OF_LOGS = replace(OWNER, outputs=frozenset({OutputKind.APPEND_ONLY}))
OF_UNSAID = replace(OWNER, outputs=frozenset({OutputKind.UNDECLARED}))
ALL = None

# Rules, verb, unit, outputs that are written again, who may approve (None = no approval is needed).
ROWS: list[tuple[str, list[ApprovalRule], str, Unit, list[str] | None, tuple[str, ...] | None]] = [
    ("without rules its approvers", [], "reset", UNIT, ALL, KIM_OR_LEE),
    ("without rules and approvers nobody", [], "reset", BARE, ALL, None),
    ("a rule that asks nobody", [NOBODY], "reset", UNIT, ALL, None),
    ("a rule that asks the owner", [OWNER], "reset", UNIT, ALL, ("//team/orders",)),
    ("a rule that asks an owner it has not", [OWNER], "reset", BARE, ALL, ()),
    ("owner or approvers", [ApprovalRule(ApprovalBy.OWNER_OR_APPROVERS)], "reset", UNIT, ALL, ("//team/orders", *KIM_OR_LEE)),
    ("an owner who is an approver", [ApprovalRule(ApprovalBy.OWNER_OR_APPROVERS)], "reset", replace(UNIT, owner="//ops/kim"), ALL, KIM_OR_LEE),
    ("the first that fits", [NOBODY, OWNER], "reset", UNIT, ALL, None),
    ("a rule of another verb", [replace(NOBODY, verbs=frozenset({ApprovedVerb.UPGRADE}))], "reset", UNIT, ALL, KIM_OR_LEE),
    ("a rule of its verb", [replace(NOBODY, verbs=frozenset({ApprovedVerb.RESET}))], "reset", UNIT, ALL, None),
    ("a rule of units that begin so", [replace(NOBODY, units=("orders-*",))], "reset", UNIT, ALL, None),
    ("a rule of other units", [replace(NOBODY, units=("orders", "billing-*"))], "reset", UNIT, ALL, KIM_OR_LEE),
    ("a rule of its output", [OF_LOGS, NOBODY], "reset", UNIT, ALL, ("//team/orders",)),
    ("a rule of an output that stays", [OF_LOGS, NOBODY], "reprocess", UNIT, ["table"], None),
    ("a rule of outputs that nobody described", [OF_UNSAID, NOBODY], "reprocess", UNIT, ["new"], ("//team/orders",)),
    ("a rule of outputs, of a unit without", [OF_LOGS, NOBODY], "reset", replace(UNIT, outputs={}), ALL, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "verb", "unit", "outputs", "sources"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_who_approves(
    rules: list[ApprovalRule], verb: str, unit: Unit, outputs: list[str] | None, sources: tuple[str, ...] | None
) -> None:
    found = approval_for(rules, verb, unit, outputs)
    assert (None if found is None else found.sources) == sources


@pytest.mark.scenario("S-RUN-5d")
def test_who_asked_never_approves_and_who_is_not_asked_neither() -> None:
    asked = approval_for([], "reset", UNIT)
    assert asked is not None
    assert asked.refusal("//ops/kim", "//ops/lee") is None
    assert asked.refusal("//ops/kim", "//ops/kim") == "//ops/kim asked for it, so somebody else has to approve it"
    assert (
        asked.refusal("//ops/kim", "//ops/eve") == "//ops/eve is no approver of orders-eu; it has //ops/kim, //ops/lee"
    )
    assert asked.wait("//ops/kim") == "waits for approval by one of //ops/lee"
    assert asked.dead_end is None


def test_an_approval_that_nobody_can_give_is_known_beforehand() -> None:
    asked = approval_for([OWNER], "reset", BARE)
    assert asked is not None
    assert asked.dead_end == "an approval by the owner of orders-eu is needed, and it has none"
    alone = approval_for([OWNER], "reset", UNIT)
    assert alone is not None
    assert alone.dead_end is None
    assert alone.wait("//team/orders") == "waits for approval by another owner of orders-eu than //team/orders"


def test_kinds_of_outputs_are_those_that_units_declare() -> None:
    assert set(OutputKind) == {*Behaviour, "undeclared"}

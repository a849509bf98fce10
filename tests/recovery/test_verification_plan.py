"""What the plan of a verification says of times is what the proof does, which looks at the target alone."""

from typing import Any

import pytest

from recoveryd.recovery.model import Plan
from recoveryd.recovery.params import Params
from recoveryd.verification.plan import make_verification_plan
from tests.builders.core import make_facts, make_target, make_verification

STAMPED = {"message.timestamp.type": "LogAppendTime"}
SOURCE, TARGET = (
    "stamps records with the time they land, which a copy has to have kept: times are compared",
    ("stamps records with the time they land: times are not compared"),
)


@pytest.mark.parametrize(
    ("source", "target", "compare", "told"),
    [
        ({}, {}, "records", []),
        (STAMPED, {}, "records", [SOURCE]),
        (STAMPED, {}, "latest", []),
        ({}, STAMPED, "records", [TARGET]),
        (STAMPED, STAMPED, "latest", [TARGET]),
    ],
)
def test_the_plan_says_whether_times_are_compared(
    source: dict[str, Any], target: dict[str, Any], compare: str, told: list[str]
) -> None:
    facts = make_facts(
        source_configs=source, target=make_target(2, **{k.replace(".", "_"): v for k, v in target.items()})
    )
    plan = make_verification_plan(make_verification(compare=compare), facts, Params())
    assert isinstance(plan, Plan)
    found = [f.message.partition(" ")[2] for f in plan.findings if f.code == "log_append_time"]
    assert found == told

"""What the plan of a verification says of times is what the proof does, which looks at the target alone."""

from dataclasses import replace
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


def test_both_sides_are_counted_by_what_a_look_at_the_source_has_found() -> None:
    """A range of a compressed target is as many bytes to the tasks as the same records in the source."""
    facts = make_facts((100, 50), target_ends=(100, 50))
    rows = tuple(replace(p, bytes_per_offset=1_000.0) for p in facts.source_partitions)
    plan = make_verification_plan(make_verification(), replace(facts, source_partitions=rows), Params())
    assert isinstance(plan, Plan)
    assert (plan.bytes_at_most, plan.stored_bytes) == (2 * 150 * 1_000, 150 * 100)

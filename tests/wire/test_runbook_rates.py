"""Rates of a runbook are spelled as everywhere else."""

from typing import Any

import pytest

from recoveryd.workflows.model.spec import RunbookSpec
from recoveryd.workflows.wire.runbook import RunbookData

NOW_MS = 1_800_000_000_000


def spec(**data: Any) -> RunbookSpec:
    made = RunbookData.model_validate({"reason": "r", "unit": "words", **data}, context={"now_ms": NOW_MS})
    return made.to_core()


@pytest.mark.parametrize(("rate", "bytes_per_s"), [("10MB", 1e7), ("1MiB", 1_048_576.0), (5e6, 5e6), (1, 1.0)])
def test_a_rate_is_a_number_or_a_size(rate: Any, bytes_per_s: float) -> None:
    made = spec(max_bytes_per_s=rate, quotas={"reports": rate})
    assert (made.max_bytes_per_s, dict(made.quotas)) == (bytes_per_s, {"reports": bytes_per_s})


@pytest.mark.parametrize("rate", ["fast", "0", -1, True, 0])
def test_what_is_no_rate_is_refused(rate: Any) -> None:
    for data in ({"max_bytes_per_s": rate}, {"quotas": {"reports": rate}}):
        with pytest.raises(ValueError, match=r".+"):
            spec(**data)

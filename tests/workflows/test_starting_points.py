"""What a plan says of positions that make no sense, or not together."""

import pytest

from recoveryd.workflows.kinds.starting_points import start_findings
from recoveryd.workflows.model.positions import NewPosition, PartitionLook

T0 = 1_700_000_000_000


def moved(partition: int, **known: object) -> tuple[NewPosition, PartitionLook]:
    look = PartitionLook("orders", partition, 0, 100, **known)  # type: ignore[arg-type]
    return NewPosition("orders", partition, 50), look


@pytest.mark.scenario("S-WIKI-2b")
@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"transaction_start": 40}, "orders 0: 50 lies inside an aborted transaction that began at 40"),
        ({"transaction_start": 40, "is_transaction_open": True}, "orders 0: 50 lies behind an open transaction"),
    ],
)
def test_a_start_inside_a_transaction_is_pointed_out(known: dict[str, object], said: str) -> None:
    [finding] = start_findings([moved(0, **known), moved(1)])
    assert finding.startswith(said)


def test_many_of_them_are_counted() -> None:
    found = start_findings([moved(p, transaction_start=40) for p in range(8)])
    assert (len(found), found[-1]) == (6, "and 3 more begin inside a transaction")


@pytest.mark.scenario("S-WIKI-2b")
@pytest.mark.parametrize(("apart_ms", "is_told"), [(60_000, False), (60_001, True)])
def test_starts_at_times_that_lie_apart_are_pointed_out(apart_ms: int, is_told: bool) -> None:
    found = start_findings([moved(0, first_ms=T0), moved(1), moved(2, first_ms=T0 + apart_ms)])
    assert [f.startswith("partitions begin at unequal times, orders 0 at 2023-11-14T22:13:20") for f in found] == (
        [True] if is_told else []
    )

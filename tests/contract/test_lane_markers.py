"""What of a dead lane's last chunk landed and waits for its marker, by what lies in the target and in the ledger."""

from dataclasses import replace

import pytest

from recoveryd.adapters.kafka.lane_markers import (
    Claims,
    Laid,
    by_lane,
    is_landed,
    open_receipts,
    read_receipts,
)
from recoveryd_jobs.contract import Receipt, TargetRun, encode, read_chunk_header
from tests.patience import lines_of

MANY = 20_000
ONE = Receipt("s", "r", 0, 1, 7, 0, 10, 20, 10, 0, 0, 0, 1, (TargetRun(0, 10, ((30, 10),)),))
TWO = replace(ONE, partition=1)
OTHER_LANE = replace(ONE, lane=1, partition=2, targets=(TargetRun(0, 2, ((41, 2),)),))


def laid(offset: int, receipt: Receipt, chunk: str = "", count: int = 0) -> Laid:
    return Laid(offset, receipt.key.encode(), encode(receipt), (chunk, count))


@pytest.mark.parametrize(
    ("what", "lies", "found"),
    [
        ("a whole chunk", [laid(5, ONE, "a", 2), laid(6, TWO, "a", 2)], (0, [ONE, TWO])),
        ("with records of others", [laid(5, ONE, "a", 1), laid(6, OTHER_LANE, "b", 2), Laid(7, b"x/y/0/0", b"")], (0, [ONE])),
        ("a part of one", [laid(5, ONE, "a", 2)], None),
        ("behind it a part of another one", [laid(5, ONE, "a", 1), laid(6, TWO, "b", 2)], None),
        ("behind it the end of something", [laid(5, ONE, "a", 1), Laid(6, b"s/r#end/0", None)], None),
        ("another recovery's", [Laid(5, b"s/other/0/0", encode(ONE)), laid(6, TWO, "a", 1)], None),
        ("of a release that did not tell how many there are", [laid(5, ONE)], None),
        ("nothing", [], None),
        ("a head alone", [Laid(5, b"s/r#head/2", b"{}")], (2, [])),
        ("a head, behind it another lane's", [Laid(5, b"s/r#head/2", b"{}"), laid(6, OTHER_LANE, "b", 1)], (2, [])),
        ("a head, behind it the lane's chunk", [Laid(5, b"s/r#head/0", b"{}"), laid(6, ONE, "a", 1)], (0, [ONE])),
        ("a head, behind it what was given up", [Laid(5, b"s/r#head/0", b"{}"), Laid(6, b"s/r#end/0", None)], None),
        ("another recovery's head", [Laid(5, b"s/other#head/0", b"{}"), laid(6, ONE, "a", 1)], None),
    ],
)  # fmt: skip
def test_what_is_open_in_the_ledger_landed_if_all_of_it_is_there(
    what: str, lies: list[Laid], found: tuple[int, list[Receipt]] | None
) -> None:
    assert open_receipts("s", "r", lies) == found, what


def test_what_is_open_in_the_target_landed_if_receipts_of_one_lane_claim_all_of_it() -> None:
    claims = Claims({0: 30, 1: 0})
    claims.add(ONE)
    claims.add(OTHER_LANE)
    assert [claims.lane_of(0, at) for at in (29, 30, 39, 40, 41)] == [None, 0, 0, None, 1]
    assert is_landed(claims, 0, range(30, 40)) == 0
    assert is_landed(claims, 0, [39, 41]) is None, "somebody else's behind it"
    assert is_landed(claims, 0, [39, 40]) is None, "behind it what nobody claims"
    assert is_landed(claims, 1, [30]) is None


def test_what_is_open_is_looked_up_at_once_among_very_many_runs() -> None:
    claims = Claims({0: 2 * MANY})
    for chunk in range(MANY):
        claims.add(replace(ONE, chunk=chunk, targets=(TargetRun(0, 1, ((2 * chunk, 1),)),)))
    assert claims.by_lane == {0: {}}, "all of that is decided"
    runs = tuple((at, 1) for at in range(2 * MANY, 4 * MANY, 2))  # others wrote between
    claims.add(replace(ONE, targets=(TargetRun(0, MANY, runs),)))
    found = []
    looked = lines_of(lambda: found.append(is_landed(claims, 0, range(2 * MANY, 4 * MANY, 2))))
    assert found == [0]
    assert looked < 20 * MANY, "one run after the other would be some hundred million lines"
    assert is_landed(claims, 0, range(2 * MANY, 4 * MANY)) is None


def test_of_each_key_the_newest_receipt_counts() -> None:
    again = replace(ONE, targets=(TargetRun(0, 10, ((50, 10),)),))
    lies = [laid(5, ONE), laid(6, TWO), Laid(7, b"s/r#head/0", b"{}"), laid(8, again), Laid(9, TWO.key.encode(), None)]
    newest: dict[bytes, Receipt] = {}
    read_receipts("s", "r", lies, {0: 40}, newest)
    assert newest == {ONE.key.encode(): again}
    read_receipts("s", "r", [Laid(10, ONE.key.encode(), None)], {0: 40}, newest)
    assert newest == {}, "and what follows later counts over what was kept"
    read_receipts("s", "r", lies, {0: 60, 1: 0}, newest)
    assert newest == {}, "what it claims is decided"
    read_receipts("s", "r", lies[:1], {0: 40}, newest)
    assert newest == {}
    assert by_lane({("t", 1): 0, ("t", 0): 0, ("t", 2): 3}) == {0: [("t", 0), ("t", 1)], 3: [("t", 2)]}
    assert read_chunk_header([("recoveryd-chunk", b"abc.3")]) == ("abc", 3)
    assert read_chunk_header([("recoveryd-chunk", None)]) == ("", 0)

"""Numbers as people type them: thousands may be grouped, and a comma never moves the point."""

import pytest

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.send.rates import parse_amount, parse_rate
from recoveryd.cli.send.values import parse_count
from recoveryd.wire.spelling import meant
from tests.cli.scripted import ScriptedBackend, run

NO_WHOLE = ["1,5", "12,34", "1,0000", "1,000,00", ",5", "1,", "1,,000", "0,500", "0,5", "1_5", "1_000,000", "1000,000"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("0015", 15), ("1000000", 1_000_000), ("1,000,000", 1_000_000), ("1_000_000", 1_000_000), ("12,345", 12_345)],
)  # fmt: skip
def test_groups_of_three_are_thousands(text: str, number: int) -> None:
    assert parse_count(text, "--max-records") == number
    assert parse_rate(f"{text}/s", "--replay-rate").records == number
    assert parse_amount(text, "--records") == number
    assert meant(text, ()) == f"offset:{number}"


@pytest.mark.parametrize("text", NO_WHOLE)
def test_a_comma_anywhere_else_is_no_number_of_anything(text: str) -> None:
    for read in (parse_count, parse_rate, parse_amount):
        with pytest.raises(Failure) as caught:
            read(text, "--flag")
        assert (caught.value.code.value, caught.value.exit_code) == ("RCV-1005", ExitCode.USAGE)
    assert meant(text, ()) is None


@pytest.mark.parametrize("text", ["1,5M/s", "1,500M/s", "1,500k", "1,5 G", "1,000.5.5", "1.5,000"])
def test_nor_is_one_before_a_unit_where_it_may_be_the_point(text: str) -> None:
    with pytest.raises(Failure, match=f"`{text}` is no rate"):
        parse_rate(text, "--replay-rate")


@pytest.mark.parametrize(
    ("text", "rate"), [("1.5M/s", 1.5e6), ("1_500k", 1.5e6), ("1,000.5", 1000.5), ("0.5", 0.5), ("9_000/s", 9_000)]
)
def test_a_point_and_a_unit_are_as_before(text: str, rate: float) -> None:
    assert parse_rate(text, "--replay-rate").records == rate


def test_a_throttle_with_a_comma_is_not_sent_as_ten_times_as_much() -> None:
    backend = ScriptedBackend()
    result = run(backend, "throttle", "r", "--max-records-per-s", "1,5", "--reason", "r")
    assert (result.exit_code, backend.sent) == (2, [])
    assert "`1,5` is no whole number above 0" in result.stderr

"""Positions on one line, and what somebody meant who wrote another tool's word."""

from typing import Any

import pytest
from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from recoveryd.recovery.spec import AtOffset
from recoveryd.wire.spelling import SpellingProblem, is_the_beginning, meant, read_position
from recoveryd.workflows.model.positions import OfSavepoint, OfSnapshot, Shift
from recoveryd.workflows.wire.positions import parse_to

NOWHEN: Any = None
WORDS = ("latest", "caught_up", "never")
RESET_WORDS = ("earliest", "latest", "current")
SOMEWHAT_LIKE = ["realtime", "real-time", "rest", "reset", "nearest", "earlier", "early", "restart"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("offset:10", {"offset": 10}),
        ("offsets:0=5,11=6", {"offsets": {"0": 5, "11": 6}}),
        ("offsets: 0 = 5 , 1=6", {"offsets": {"0": 5, "1": 6}}),
        ("latest", None),
        ("2026-11-21T06:00:00Z", None),
        ("-2h", None),
    ],
)
def test_a_position_on_one_line_is_the_object_of_the_contract(text: str, found: object) -> None:
    assert read_position(text) == found


@pytest.mark.parametrize(
    "text", ["offset:", "offset:-1", "offset:1e3", "offsets:", "offsets:0", "offsets:0=1,0=2", "offset:²"]
)
def test_what_only_begins_like_a_position_is_refused(text: str) -> None:
    with pytest.raises(SpellingProblem):
        read_position(text)


@pytest.mark.parametrize(
    ("text", "words", "wanted"),
    [
        ("end", WORDS, "latest"),
        ("NOW", WORDS, "latest"),
        ("beginning", ("earliest",), "earliest"),
        ("beginning", WORDS, None),
        ("now", ("earliest",), "-1s"),
        ("latest", ("earliest",), "-1s"),
        ("LATEST", ("earliest",), "-1s"),
        ("latst", ("earliest",), "-1s"),
        ("earlist", ("earliest",), "earliest"),
        ("earliest", WORDS, None),
        ("Earliest", ("latest",), None),
        ("earlyest", WORDS, None),
        ("smallest", WORDS, None),
        ("LATEST", WORDS, "latest"),
        ("LATEST", ("earliest", "latest"), "latest"),
        ("end", ("earliest", "latest"), "latest"),
        ("100", WORDS, "offset:100"),
        ("1_000", WORDS, "offset:1000"),
        ("caughtup", WORDS, "caught_up"),
        ("forever", WORDS, "never"),
        ("nevr", WORDS, "never"),
        ("xyz", WORDS, None),
        ("head", ("earliest",), None),
        ("head", WORDS, None),
        ("head", RESET_WORDS, None),
        ("beginning", RESET_WORDS, "earliest"),
        ("end", RESET_WORDS, "latest"),
        ("currnt", RESET_WORDS, "current"),
    ],
)
def test_a_word_of_another_tool_is_understood_but_not_taken(
    text: str, words: tuple[str, ...], wanted: str | None
) -> None:
    assert meant(text, words) == wanted


@pytest.mark.parametrize("words", [("earliest",), ("latest",), WORDS, RESET_WORDS])
@pytest.mark.parametrize("text", SOMEWHAT_LIKE)
def test_no_end_of_the_log_is_advised_or_told_for_what_is_only_somewhat_like_it(
    text: str, words: tuple[str, ...]
) -> None:
    assert meant(text, words) not in {"earliest", "latest", "-1s"}
    assert not is_the_beginning(text, words)


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        *((text, True) for text in ("earliest", "BEGINNING", "to-earliest", "earlyest", "earilest")),
        *((text, False) for text in ("head", "latest", "now")),
    ],
)
def test_the_beginning_is_a_word_for_it_or_a_slip_of_one(text: str, *, is_so: bool) -> None:
    assert is_the_beginning(text, WORDS) is is_so


@pytest.mark.parametrize(
    ("text", "to"),
    [
        ("offset:10", AtOffset(10)),
        ("shift:-100", Shift(-100)),
        ("snapshot:run-1", OfSnapshot("run-1")),
        ("savepoint:monday", OfSavepoint("monday")),
    ],
)
def test_a_reset_takes_the_same_spelling_in_records_as_in_flags(text: str, to: object) -> None:
    assert parse_to(text, NOWHEN) == to


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("100", "Did you mean offset:100?"),
        ("end", "Did you mean latest?"),
        ("head", "It is one of earliest, latest, current"),
        ("reset", "It is one of earliest, latest, current"),
        ("shift:x", "Write shift:-100"),
        ("offsets:0=1", "names no topic"),
    ],
)
def test_a_reset_to_what_is_no_position_says_what_was_meant(text: str, said: str) -> None:
    info: ValidationInfo = NOWHEN
    with pytest.raises(PydanticCustomError) as refused:
        parse_to(text, info)
    assert said in f"{refused.value} {refused.value.context}"

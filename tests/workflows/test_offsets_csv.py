"""Offsets as CSV, in the form of Kafka's own tool."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recoveryd.workflows.model.offsets_csv import OffsetsUnreadable, read_offsets, write_offsets

names = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=20)
offsets = st.dictionaries(
    names, st.dictionaries(st.integers(0, 999), st.integers(0, 2**62), min_size=1, max_size=5), min_size=1, max_size=4
)


@given(group=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20), found=offsets)
@example(group=" a", found={"t": {0: 0}})
@example(group='"a, b"', found={"t": {0: 0}})
@example(group="\ufeffa", found={"t": {0: 0}})
def test_what_is_written_is_read_again(group: str, found: dict[str, dict[int, int]]) -> None:
    assert read_offsets(write_offsets(group, found), group) == found


def test_it_looks_like_that_of_kafkas_tool() -> None:
    assert write_offsets("app", {"b": {0: 5}, "a": {1: 7, 0: 3}}) == "app,a,0,3\napp,a,1,7\napp,b,0,5\n"


@pytest.mark.parametrize(
    "text",
    [
        "a,0,3\na,1,7\n",
        'app,a,0,3\r\n"app","a",1,7\r\n',
        "other,a,0,9\napp,a,0,3\n\napp, a, 1, 7",
        "\ufeffa,0,3\na,1,7",
    ],
)
def test_forms_that_people_write_are_read_alike(text: str) -> None:
    assert read_offsets(text, "app") == {"a": {0: 3, 1: 7}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing stands there of the group app"),
        ("other,a,0,1", "nothing stands there of the group app"),
        ("a,0", "line 1 has 2 fields"),
        ("a,0,1\na,0,2", "line 2: a 0 stands there twice"),
        ("a,-1,1", "line 1: '-1' is no partition"),
        ("a,0,1.5", "line 1: '1.5' is no offset"),
        ("a,0,latest", "'latest' is no offset"),
        ("a,0,٣", "is no offset"),
        ("a,0,10000000000000000000", "line 1: '10000000000000000000' is no offset"),
        (f"a,0,{'9' * 5_000}", "line 1: '9999999999999999999'... is no offset"),
        (f"a,{'9' * 5_000},0", "is no partition"),
        (f"a,0,1\n{'b' * 200_000},0,1", "line 2: field larger than field limit"),
    ],
)
def test_what_cannot_be_meant_is_named_with_its_line(text: str, says: str) -> None:
    with pytest.raises(OffsetsUnreadable, match=says):
        read_offsets(text, "app")

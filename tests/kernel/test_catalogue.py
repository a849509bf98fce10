"""The catalogue of errors: each code once, in order, and none without words."""

import pytest

from recoveryd.kernel.catalogue import Code


def test_codes_stand_in_the_order_of_their_numbers_and_each_once() -> None:
    values = [code.value for code in Code.__members__.values()]
    assert values == sorted(set(values))


@pytest.mark.parametrize("code", Code)
def test_every_code_says_what_it_means_and_what_to_do_next(code: Code) -> None:
    assert code.sentence.endswith(".")
    assert code.next_step.endswith(".")
    assert Code(code.value) is code

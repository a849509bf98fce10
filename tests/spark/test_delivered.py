"""Where records were written, by delivery reports, and how incomplete reports are handled."""

import pytest

from recoveryd_jobs.errors import Redo
from recoveryd_jobs.lane.record_copier import Delivered


class Report:
    """A delivery report; the client library gives None when the broker gave no offset."""

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def offset(self) -> int | None:
        return self._offset


def delivered(*offsets: int | None, dense: bool) -> Delivered:
    part = Delivered(3, None)
    part.count = len(offsets)
    for number, offset in enumerate(offsets):
        if dense:
            part.on_each(None, Report(offset))  # type: ignore[arg-type]
        elif number in {0, len(offsets) - 1}:
            part.on_mark(number, None, Report(offset))  # type: ignore[arg-type]
    return part


@pytest.mark.parametrize("dense", [False, True])
def test_records_one_behind_the_other_are_one_run(dense: bool) -> None:
    assert delivered(7, 8, 9, dense=dense).runs() == ((7, 3),)


def test_records_of_others_between_ours_make_several_runs_or_ask_for_each_offset() -> None:
    assert delivered(7, 9, 10, dense=True).runs() == ((7, 1), (9, 2))
    with pytest.raises(Redo) as caught:
        delivered(7, 9, 10, dense=False).runs()
    assert caught.value.dense


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("offsets", [(7, 8, None), (None, 8, 9), (None, None, None)])
def test_a_batch_sent_twice_of_which_the_place_is_unknown_is_done_again_with_a_new_client(
    offsets: tuple[int | None, ...], dense: bool
) -> None:
    with pytest.raises(Redo) as caught:
        delivered(*offsets, dense=dense).runs()
    assert caught.value.reopen

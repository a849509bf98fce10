"""A log that ends before what was read of it was cut back, unless anything speaks against that."""

import pytest

from recoveryd.adapters.kafka.log_cut import LogCut
from recoveryd.adapters.kafka.offsets import LogEnd
from recoveryd.errors import ClusterProblem

STALE, NEW = 3, 4


class Told:
    """Brokers that answer in turn; the last answer stays."""

    def __init__(self, *answers: LogEnd) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self) -> LogEnd:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def make_cut(first: LogEnd, *anew: LogEnd) -> LogCut:
    return LogCut(Told(first), Told(*anew), asked_for_s=0.1, pause_s=0.01)


async def test_a_log_that_is_as_long_as_what_was_read_is_asked_for_once() -> None:
    anew = Told(LogEnd(0, NEW))
    assert await LogCut(Told(LogEnd(9, NEW)), anew).end(9) == 9
    assert anew.asked == 0


async def test_a_cut_is_believed_when_all_say_so_through_the_whole_time() -> None:
    anew = Told(LogEnd(4, NEW))
    assert await LogCut(Told(LogEnd(4, STALE)), anew, asked_for_s=0.1, pause_s=0.01).end(9) == 4
    assert anew.asked >= 3


async def test_a_cut_log_to_which_others_write_begins_where_it_ended_first() -> None:
    assert await make_cut(LogEnd(4, -1), LogEnd(4, -1), LogEnd(5, -1), LogEnd(7, -1)).end(9) == 4


async def test_an_end_that_a_broker_of_before_tells_is_not_believed() -> None:
    """As long as another one knows better, however often it is told."""
    assert await make_cut(LogEnd(4, STALE), *[LogEnd(4, STALE)] * 3, LogEnd(9, NEW)).end(9) == 9


@pytest.mark.parametrize(
    "anew",
    [
        pytest.param([LogEnd(4, NEW), LogEnd(3, NEW)], id="shrinks"),
        pytest.param([LogEnd(3, STALE), LogEnd(5, NEW)], id="of an older leader too"),
        pytest.param([LogEnd(5, NEW), LogEnd(5, STALE)], id="of an older leader at last"),
    ],
)
async def test_answers_that_do_not_agree_tell_nothing(anew: list[LogEnd]) -> None:
    with pytest.raises(ClusterProblem) as raised:
        await make_cut(LogEnd(5, NEW), *anew).end(9)
    assert raised.value.retriable


async def test_a_leader_older_than_one_that_answered_before_is_not_believed() -> None:
    cut = LogCut(Told(LogEnd(9, NEW), LogEnd(4, STALE)), Told(LogEnd(4, STALE)), asked_for_s=0.1, pause_s=0.01)
    assert await cut.end(9) == 9
    with pytest.raises(ClusterProblem):
        await cut.end(9)

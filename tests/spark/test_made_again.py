"""Of a target that was made again it is said so, and not that a broker lost what the old one had."""

from collections.abc import Callable

import pytest

from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import naming_made_again
from recoveryd_jobs.topics import NoAnswer

GONE = JobError("ledger_broken", "only 28 of them are left")
AGAIN = JobError("topic_recreated", "was deleted and made again")


class Answers:
    def __init__(self, problem: Exception | None) -> None:
        self._problem = problem

    def check_id(self, _deadline_s: float, _waiting: Callable[[], None]) -> int:
        if self._problem is not None:
            raise self._problem
        return 2


@pytest.mark.parametrize(
    ("answer", "told"), [(None, GONE), (NoAnswer("silent"), GONE), (AGAIN, AGAIN)], ids=["same", "silent", "made again"]
)
def test_what_is_missed_in_a_topic_made_again_is_not_called_lost(answer: Exception | None, told: JobError) -> None:
    topic = Answers(answer)
    with pytest.raises(JobError) as raised, naming_made_again(topic, lambda: None):  # type: ignore[arg-type]
        raise GONE
    assert raised.value is told


def test_nothing_is_asked_where_nothing_is_missed() -> None:
    with naming_made_again(Answers(AGAIN), lambda: None):  # type: ignore[arg-type]
        pass

"""The order of a commit, of a chunk and of what is written again: whether a topic is still the planned one is asked
after the last record was written there. A topic made again while records wait to be delivered takes all of them.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from recoveryd_jobs.contract import LaneSpec, PartitionRange
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.chunk import Chunk, Committer
from recoveryd_jobs.lane.logs import LanePen
from recoveryd_jobs.receipts import LaneLedger
from tests.builders.lane_log import make_spec

SPEC = make_spec(LaneSpec(0, (PartitionRange(0, 0, 10),)), (None, None), {"mapping": "same"})


class NamedTopic:
    """Its id is that of when it was asked."""

    def __init__(self, name: str) -> None:
        self.name, self.id = name, "planned"

    def ask_id(self) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(self.id)
        return future

    def check_id(
        self, _deadline_s: float, _waiting: Callable[[], None] | None = None, asked: "Future[Any] | None" = None
    ) -> int:
        if (asked or self.ask_id()).result() != "planned":
            raise JobError("topic_recreated", self.name)
        return 1


class HeldUpTarget:
    """`during`: what happens while records wait to be delivered, at the first and the second time."""

    def __init__(self, *during: Callable[[], None]) -> None:
        self._during, self.is_committed, self.is_open = list(during), False, True

    def flush(self, _deadline_s: float) -> None:
        if self._during:
            self._during.pop(0)()

    def begin(self) -> None: ...

    def send(self, *_: Any, **__: Any) -> None: ...

    def commit(self, _deadline_s: float) -> None:
        self.is_committed = True


class NoHeads:
    def dropped(self) -> None: ...

    def next(self, *_: Any) -> None: ...

    def committed(self, *_: Any) -> None: ...


def nothing() -> None: ...


def topics_of_which_one_is_made_again(name: str, when: int) -> tuple[dict[str, NamedTopic], HeldUpTarget]:
    """While the target delivers records, after `when` other deliveries."""
    topics = {each: NamedTopic(each) for each in ("source", "target", "receipts")}

    def make_again() -> None:
        topics[name].id = "another"

    return topics, HeldUpTarget(*[nothing] * when, make_again)


in_either_flush = pytest.mark.parametrize(
    ("made_again", "when"),
    [("target", 0), ("receipts", 1)],
    ids=["while records are delivered", "while receipts are delivered"],
)


@in_either_flush
def test_a_topic_made_again_under_the_chunk_is_seen_before_the_commit(made_again: str, when: int) -> None:
    topics, target = topics_of_which_one_is_made_again(made_again, when)
    written = [topics["target"], topics["receipts"]]
    heads: Any = NoHeads()
    committer = Committer(SPEC, 0, target, topics["source"], written, 0, heads, heads)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=made_again):
        committer.commit(Chunk({}), LaneLedger(), nothing)
    assert not target.is_committed


@in_either_flush
def test_a_topic_made_again_under_what_is_written_again_is_seen_before_the_commit(made_again: str, when: int) -> None:
    topics, target = topics_of_which_one_is_made_again(made_again, when)
    pen = LanePen(SPEC, 0, target, list(topics.values()))  # type: ignore[arg-type]
    with pytest.raises(JobError, match=made_again):
        pen.write_again([], {}, 0)
    assert not target.is_committed


def test_a_chunk_whose_topics_stay_is_committed() -> None:
    target, source, written = HeldUpTarget(), NamedTopic("source"), [NamedTopic("target")]
    heads: Any = NoHeads()
    committer = Committer(SPEC, 0, target, source, written, 0, heads, heads)  # type: ignore[arg-type]
    committer.commit(Chunk({}), LaneLedger(), nothing)
    assert target.is_committed

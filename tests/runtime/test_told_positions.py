"""Positions that a lane tells again are not read again, however many lanes there are."""

from types import SimpleNamespace

import pytest

from recoveryd.adapters.kafka import progress
from recoveryd.adapters.kafka.progress import KafkaProgressFeed
from recoveryd_jobs.contract import LaneHeartbeat, LanePosition, encode, progress_key

ROWS = tuple(LanePosition(p, 7, 9, "copying", copied=7) for p in range(30))


def written(lane: int) -> tuple[bytes, bytes]:
    said = LaneHeartbeat("r1", 1, lane, 1, "copying", True, 1.0, 1.0, ROWS)
    return progress_key("r1", lane).encode(), encode(said)


WRITTEN = [written(lane) for lane in range(510)]


class Feed:
    """A feed that is given what lanes write, and a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        self._feed = KafkaProgressFeed({}, "progress", lambda: 0)

    def heard(self, lanes: int) -> list[tuple[LanePosition, ...]]:
        """The positions as they are passed on."""
        return [self._feed._decode(*each).positions for each in WRITTEN[:lanes]]

    @property
    def known(self) -> int:
        return len(self._feed._known)


@pytest.mark.parametrize("lanes", [2, 510])
def test_what_all_lanes_tell_again_is_what_they_told_before(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed(monkeypatch)
    first = feed.heard(lanes)
    assert first == [ROWS] * lanes
    for _ in range(2):
        feed.now_s += 1.0
        assert all(again is told for again, told in zip(feed.heard(lanes), first, strict=True))


def test_lanes_that_are_not_heard_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed(monkeypatch)
    feed.heard(510)
    for after_s, left in ((progress._KNOWN_S, 510), (1.0, 2), (progress._KNOWN_S + 1.0, 2)):
        feed.now_s += after_s
        feed.heard(2)
        assert feed.known == left

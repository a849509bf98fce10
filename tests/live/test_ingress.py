"""How much others write, as the controller is told: it never falls because something was not looked at."""

from dataclasses import dataclass, field

import pytest

from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.live.ingress import with_offsets
from recoveryd.live.protecting import INGRESS_POINTS, Protecting
from recoveryd.live.traffic import Copied

EACH_S, RECORD_BYTES, PER_S = 5, 100.0, 20


@dataclass
class Watched:
    """Topics `a` and `b`, each with two partitions that get `PER_S` records/s."""

    protecting: Protecting = Protecting()
    now_ms: int = 1_000_000
    logs: dict[str, dict[int, int]] = field(default_factory=lambda: {"a": {0: 0, 1: 0}, "b": {0: 0, 1: 0}})

    def look(
        self,
        times: int = 1,
        topics: str = "ab",
        silent: int | None = None,
        held: int | None = None,
        copied: Copied | None = None,
    ) -> None:
        """`silent`: the partition that does not answer. `held`: one whose last stable offset is not told. `copied`: of
        topic `a`.
        """
        for _ in range(times):
            self.now_ms += EACH_S * 1_000
            for log in self.logs.values():
                for partition in log:
                    log[partition] += EACH_S * PER_S
            ends = {t: {p: end for p, end in self.logs[t].items() if p != silent} for t in topics}
            samples = [
                TopicSample("main", t, t, {}, e, {p: s for p, s in e.items() if p != held}, self.now_ms, 2)
                for t, e in ends.items()
            ]
            sizes = {("main", topic): RECORD_BYTES for topic in self.logs}
            ours = {} if copied is None else {("main", "a"): copied}
            self.protecting = with_offsets(
                self.protecting, OffsetsSampled(tuple(samples)), ours, sizes, self.now_ms, frozenset({"main"})
            )

    @property
    def bytes_per_s(self) -> float | None:
        found = self.protecting.ingress.get("main")
        return None if found is None else found.bytes_per_s


WHOLE = 4 * PER_S * RECORD_BYTES


@pytest.fixture
def watched() -> Watched:
    found = Watched()
    found.look(8)
    assert found.bytes_per_s == pytest.approx(WHOLE)
    return found


def test_a_topic_that_is_not_looked_at_any_more_is_no_less_traffic(watched: Watched) -> None:
    for _ in range(8):
        watched.look(topics="a")
        assert watched.bytes_per_s is None or watched.bytes_per_s == pytest.approx(WHOLE / 2)
    assert watched.bytes_per_s == pytest.approx(WHOLE / 2)


def test_a_partition_that_does_not_answer_is_no_less_traffic(watched: Watched) -> None:
    watched.look(silent=1)
    assert watched.bytes_per_s is None
    for _ in range(8):
        watched.look()
        assert watched.bytes_per_s is None or watched.bytes_per_s >= 0.99 * WHOLE
    assert watched.bytes_per_s == pytest.approx(WHOLE)


def test_a_last_stable_offset_that_is_not_told_is_no_less_traffic(watched: Watched) -> None:
    for _ in range(8):
        watched.look(held=1)
        assert watched.bytes_per_s == pytest.approx(WHOLE)


def test_records_that_turn_out_to_be_larger_than_planned_are_no_more_traffic(watched: Watched) -> None:
    """Plans know the size of records as they lie in a log, compressed; a replay what it read."""
    begun_ms = watched.protecting.ingress["main"].since_ms
    watched.look(copied=Copied(records=10, bytes=3_000))
    assert watched.protecting.ingress["main"].since_ms == watched.now_ms != begun_ms
    for _ in range(INGRESS_POINTS - 1):
        assert watched.bytes_per_s is None, "few samples by the new size tell no rate"
        watched.look(copied=Copied(records=10, bytes=3_000))
    for _ in range(8):
        assert watched.bytes_per_s == pytest.approx(2 * WHOLE)
        watched.look(copied=Copied(records=10, bytes=3_000))


def test_a_mean_size_that_drifts_is_the_same_until_it_is_far_from_the_one_that_counts(watched: Watched) -> None:
    begun_ms = watched.protecting.ingress["main"].since_ms
    for size in (100, 110, 120, 124):
        watched.look(copied=Copied(records=10, bytes=10 * size))
        assert watched.bytes_per_s == pytest.approx(WHOLE)
    watched.look(copied=Copied(records=10, bytes=1_260))
    assert watched.protecting.ingress["main"].since_ms != begun_ms
    watched.look(INGRESS_POINTS - 1, copied=Copied(records=10, bytes=1_260))
    assert watched.bytes_per_s == pytest.approx(WHOLE * 2.26 / 2)


def test_a_clock_that_was_set_back_tells_no_more_traffic(watched: Watched) -> None:
    watched.now_ms -= 60_000
    for _ in range(20):
        watched.look()
        assert watched.bytes_per_s is None or watched.bytes_per_s <= WHOLE * 1.001
    assert watched.bytes_per_s == pytest.approx(WHOLE)

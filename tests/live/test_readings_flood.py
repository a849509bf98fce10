"""A sender that floods a domain with readings keeps no critical one out."""

from recoveryd.live.freshness import Reading, RejectReason
from recoveryd.live.protecting import READINGS_MOST, Protecting

DOMAINS = ("main",)


def flooded(*, is_critical: bool) -> Protecting:
    found = Protecting()
    for at_ms in range(READINGS_MOST):
        found = found.with_reading("main", Reading("chatty", 0.1, at_ms, is_critical), DOMAINS)
    assert len(found.readings["main"]) == READINGS_MOST
    return found


def test_a_critical_reading_takes_the_place_of_the_oldest_that_can_wait() -> None:
    last = Reading("shop", 1.0, READINGS_MOST, True)
    after = flooded(is_critical=False).with_reading("main", last, DOMAINS)
    assert after.readings["main"][-1] == last
    assert [r.sampled_at_ms for r in after.readings["main"][:2]] == [1, 2]
    assert len(after.readings["main"]) == READINGS_MOST
    assert after.rejections == {RejectReason.TOO_MANY: 1}


def test_where_all_are_critical_one_more_is_refused() -> None:
    before = flooded(is_critical=True)
    after = before.with_reading("main", Reading("shop", 1.0, READINGS_MOST, True), DOMAINS)
    assert (after.readings, after.rejections) == (before.readings, {RejectReason.TOO_MANY: 1})


def test_any_other_reading_beyond_the_bound_is_refused() -> None:
    before = flooded(is_critical=False)
    after = before.with_reading("main", Reading("shop", 1.0, READINGS_MOST), DOMAINS)
    assert (after.readings, after.rejections) == (before.readings, {RejectReason.TOO_MANY: 1})

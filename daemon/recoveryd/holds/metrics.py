"""The metrics about holds, and their values."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from recoveryd.holds.draft import HOLDS
from recoveryd.holds.model import KIND
from recoveryd.kernel.metrics import Measures, Sample, count_states, gauge
from recoveryd.kernel.state import CoreState

HELD_SECONDS: Final = gauge(
    "recoveryd_topic_held_seconds", "Since when a topic is held, by the oldest hold on it; absent while free.", "topic"
)
METRICS: Final = (HELD_SECONDS,)


def make_measures() -> Measures:
    return Measures(metrics=METRICS, gauges=_gauges, topics=lambda state, _: {t for _, t in state.of(HOLDS).held})


def _gauges(state: CoreState, now_ms: int) -> Iterator[Sample]:
    holds = state.of(HOLDS)
    yield from count_states([KIND], Counter((hold.kind, hold.state) for hold in holds))
    since: dict[str, int] = {}
    for hold in holds.live.values():
        for topic in hold.topics:
            since[topic] = min(since.get(topic, hold.created_ms), hold.created_ms)
    for topic, began_ms in since.items():
        yield Sample(HELD_SECONDS, (topic,), max(0, now_ms - began_ms) / 1000)

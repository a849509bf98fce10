"""What people and probes are shown: health, documents of recoveries and live traffic, and the daemon's own metrics.

Each page is made when somebody asks, from what the parts know at that moment; nothing is kept here.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from recoveryd.adapters.http.metrics_page import CONTENT_TYPE, Metrics
from recoveryd.adapters.http.transition_posts import TransitionPosts
from recoveryd.adapters.spark.attempt_logs import read_log
from recoveryd.collectors.offsets import OffsetCollector
from recoveryd.collectors.secret_files import SecretFiles
from recoveryd.kernel.metrics import Sample
from recoveryd.live.wire.page import control_document, lag_document
from recoveryd.metrics.book import MetricsBook
from recoveryd.metrics.definitions import (
    CONTROL_UNREAD,
    JOURNAL_FAILING,
    LEADER,
    LOOP_AGE,
    SECRET_REFUSED,
    WEBHOOK_WAITING,
)
from recoveryd.params import CapabilityParams
from recoveryd.ports import Clock
from recoveryd.runtime import Runtime
from recoveryd.runtime.health import Health, Sources
from recoveryd.runtime.loop import Core
from recoveryd.runtime.vitals import knows_recoveries
from recoveryd.wire.status_topic import StatusTopic


class Pulse:
    """When the event loop last turned. `beat` is called by a task of its own, about twice a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beat_s = clock.monotonic_s()

    def beat(self) -> None:
        self._beat_s = self._clock.monotonic_s()

    @property
    def age_s(self) -> float:
        return self._clock.monotonic_s() - self._beat_s


def make_sources(
    log_dir: Path | None,
    runtime: Runtime,
    core: Core,
    status: StatusTopic,
    params: CapabilityParams,
    collector: OffsetCollector,
    pulse: Pulse,
    clock: Clock,
    metrics: Metrics,
) -> Sources:
    """`log_dir`: where logs of attempts lie, None = they are not shown."""
    return Sources(
        health=lambda: _health(runtime, collector, pulse, clock.monotonic_s()),
        recoveries=lambda: core.known(runtime.state),
        state=lambda: runtime.state,
        metrics=metrics.render,
        document=status.document,
        metrics_content_type=CONTENT_TYPE,
        lag=lambda: lag_document(runtime.state, params.live, clock.now_ms()),
        log=None if log_dir is None else partial(read_log, log_dir),
        control=lambda: control_document(runtime.state, params.live, params.recoveries.control, clock.now_ms()),
    )


def own_samples(
    runtime: Runtime,
    book: MetricsBook,
    pulse: Pulse,
    clock: Clock,
    secrets: SecretFiles,
    posts: TransitionPosts,
    collector: OffsetCollector,
) -> Iterator[Sample]:
    """The daemon's own metrics, and what its capabilities measure once their state is read. Not while it leads no more:
    another daemon may, and knows better.
    """
    yield Sample(LEADER, (), 1.0 if runtime.vitals.role == "leader" else 0.0)
    yield Sample(LOOP_AGE, (), pulse.age_s)
    if runtime.vitals.role == "leader" and collector.control_unread is not None:
        yield Sample(CONTROL_UNREAD, (), float(collector.control_unread))
    for name, is_refused in secrets.refused.items():
        yield Sample(SECRET_REFUSED, (name,), float(is_refused))
    for name, waiting in posts.waiting.items():
        yield Sample(WEBHOOK_WAITING, (name,), float(waiting))
    yield Sample(JOURNAL_FAILING, (), runtime.vitals.journal_failing_for_s(clock.monotonic_s()) or 0.0)
    if knows_recoveries(runtime.vitals.role, is_loaded=runtime.vitals.is_loaded):
        yield from book.gauges(runtime.state, clock.now_ms())


def _health(runtime: Runtime, collector: OffsetCollector, pulse: Pulse, now_s: float) -> Health:
    vitals = runtime.vitals
    return Health(
        role=vitals.role,
        is_loaded=vitals.is_loaded,
        loop_age_s=pulse.age_s,
        round_age_s=vitals.round_for_s(now_s),
        journal_failing_for_s=vitals.journal_failing_for_s(now_s),
        journal_try_age_s=vitals.try_for_s(now_s),
        is_main_reachable=collector.is_main_reachable,
    )

"""Puts the daemon together from its settings: which adapter stands behind which port, and who is told what. Nothing runs yet after `build`.

Only here and on the command line are settings known; everything else is handed what it needs.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from daemon.adapters.canary import KafkaCanary
from daemon.adapters.client_quotas import KafkaClientQuotas
from daemon.adapters.clock import SystemClock
from daemon.adapters.control_log import KafkaControlLog
from daemon.adapters.group_offsets import KafkaGroupOffsets
from daemon.adapters.kafka_clusters import MAIN, Expectations, KafkaClusters
from daemon.adapters.kafka_journal import KafkaJournal
from daemon.adapters.kafka_ledger import KafkaLedger
from daemon.adapters.kafka_progress import KafkaProgressFeed
from daemon.adapters.prometheus import CONTENT_TYPE, Metrics
from daemon.adapters.prometheus_queries import PrometheusQueries
from daemon.adapters.spark_command import SparkProfile
from daemon.adapters.spark_jobs_runner import SparkJobs
from daemon.adapters.webhooks import HttpWebhooks, WebhookTarget
from daemon.collectors.canary import CanaryCollector
from daemon.collectors.offsets import Monitored, OffsetCollector
from daemon.collectors.queries import Query, QueryCollector
from daemon.core.decide import Decider
from daemon.core.decision import CoreState
from daemon.core.events import Event
from daemon.core.metric_defs import CANARY_PRODUCE, JOURNAL_FAILING, LEADER, LOOP_AGE, SIGNALS_REJECTED, Sample
from daemon.core.observe import gauges
from daemon.core.observe_details import details
from daemon.core.observe_live import live_gauges
from daemon.core.params import Params
from daemon.core.watches.model import Watch
from daemon.health import Health, HealthServer, Record, Sources
from daemon.interpreter import Interpreter
from daemon.ports import Clock, Clusters, ControlRecord, Emit, Jobs, Journal, ProgressFeed
from daemon.runtime import Inbox, Intake, Runtime
from daemon.settings import Settings
from daemon.settings.live import CANARY_READING
from daemon.wire.codec import decode_event
from daemon.wire.live import control_document, lag_document
from daemon.wire.status import to_document
from daemon.wire.watch_status import watch_to_document


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


@dataclass(frozen=True, slots=True)
class Daemon:
    """The parts that have a life of their own; `daemon.app` starts, watches and ends them."""

    runtime: Runtime
    intake: Intake
    interpreter: Interpreter
    collector: OffsetCollector
    readings: tuple[CanaryCollector | QueryCollector, ...]
    server: HealthServer
    journal: Journal
    clusters: Clusters
    jobs: Jobs
    progress: ProgressFeed
    pulse: Pulse


def build(settings: Settings) -> Daemon:
    """Make all parts. Call inside the event loop."""
    clock, inbox, metrics = SystemClock(), Inbox(), Metrics()
    pulse = Pulse(clock)
    names, values = settings.topic_names, settings.values
    clients = settings.librdkafka_all()
    slots = {name: profile.task_slots for name, profile in _profiles(settings).items()}
    clusters = KafkaClusters(
        clients,
        names,
        Expectations(slots, lambda: (runtime.measured_bytes_per_s, "measured")),
        clock.now_ms,
        values.topics.receipts_partitions,
        values.monitor.canary.clusters if values.monitor.is_canary_on else (),
    )
    ledger = KafkaLedger(clients, names.receipts, values.scope, values.attempts.transaction_timeout)
    journal = KafkaJournal(clients[MAIN], names, values.scope, clock.now_ms)
    jobs = SparkJobs(_profiles(settings), settings.job_defaults(), settings.work_dir, inbox.emit)
    progress = KafkaProgressFeed(clients[MAIN], names.progress, clock.now_ms)

    async def when_leading() -> None:
        await progress.start(inbox.emit)
        await jobs.start()

    quotas = KafkaClientQuotas({name: settings.access(name) for name in clients}, values.scope)
    targets = {name: WebhookTarget(*target) for name, target in settings.webhook_targets().items()}
    webhooks = HttpWebhooks(targets, values.scope, inbox.emit, clock.now_ms)
    interpreter = Interpreter(clusters, ledger, jobs, inbox.emit, quotas=quotas, webhooks=webhooks)
    intake = Intake(inbox, KafkaControlLog(clients[MAIN], names.control), _decode)
    params = settings.params()
    runtime = Runtime(
        decide=Decider(params).decide,
        journal=journal,
        clusters=clusters,
        when_leading=when_leading,
        effects=interpreter,
        inbox=inbox,
        intake=intake,
        clock=clock,
        metrics=metrics,
        freeze_s=values.faust.session_timeout / 2000,
    )
    metrics.source = lambda: _samples(runtime, params, pulse, clock)
    collector = OffsetCollector(
        clusters,
        KafkaGroupOffsets(clients),
        inbox.emit,
        lambda: runtime.state if runtime.vitals.role == "leader" else None,
        clock,
        period_s=values.monitor.interval / 1000,
        monitored=[Monitored(m.cluster, m.topic, m.group) for m in values.monitor.topics],
    )
    readings = (
        _canaries(settings, inbox.emit, metrics, runtime, clock),
        _queries(settings, inbox.emit, metrics, runtime, clock),
    )
    sources = _sources(runtime, params, collector, pulse, clock, metrics)
    server = HealthServer(sources, values.http.host, values.http.port)
    return Daemon(runtime, intake, interpreter, collector, readings, server, journal, clusters, jobs, progress, pulse)


def _canaries(settings: Settings, emit: Emit, metrics: Metrics, runtime: Runtime, clock: Clock) -> CanaryCollector:
    monitor = settings.values.monitor
    clusters = monitor.canary.clusters if monitor.is_canary_on else ()
    topic = settings.topic_names.canary
    return CanaryCollector(
        {name: KafkaCanary(name, settings.librdkafka(name), topic) for name in clusters},
        emit,
        lambda cluster, seconds: metrics.observe(CANARY_PRODUCE, seconds, (cluster,)),
        lambda: runtime.vitals.role == "leader",
        clock,
        name=CANARY_READING,
        every_s=monitor.canary.every / 1000,
        reading_every_s=settings.values.control.period / 1000,
    )


def _queries(settings: Settings, emit: Emit, metrics: Metrics, runtime: Runtime, clock: Clock) -> QueryCollector:
    wanted = settings.values.monitor.prometheus
    return QueryCollector(
        [Query(q.name, q.cluster, q.url, q.query, q.every / 1000) for q in wanted],
        PrometheusQueries(),
        emit,
        lambda reason: metrics.add([Sample(SIGNALS_REJECTED, (reason.value,), 1)]),
        lambda: runtime.vitals.role == "leader",
        clock,
    )


def _profiles(settings: Settings) -> dict[str, SparkProfile]:
    return {
        name: SparkProfile(p.master, p.driver_memory, p.conf, p.warm, p.slots)
        for name, p in settings.values.profiles.items()
    }


def _decode(record: ControlRecord) -> Event:
    return decode_event(record.partition, record.offset, record.broker_ms, record.key, record.value, record.headers)


def _sources(
    runtime: Runtime, params: Params, collector: OffsetCollector, pulse: Pulse, clock: Clock, metrics: Metrics
) -> Sources:
    return Sources(
        health=lambda: _health(runtime, collector, pulse, clock.monotonic_s()),
        recoveries=lambda: _records(runtime.state),
        metrics=metrics.render,
        document=_document,
        metrics_content_type=CONTENT_TYPE,
        lag=lambda: lag_document(runtime.state, params.live, clock.now_ms()),
        control=lambda: control_document(runtime.state, params, clock.now_ms()),
    )


def _records(state: CoreState) -> Mapping[str, Record]:
    """Recoveries and watches, which share one space of ids."""
    watches: dict[str, Record] = {watch.id: watch for watch in state.watches}
    recoveries: Mapping[str, Record] = state.recoveries
    return ChainMap(watches, cast("dict[str, Record]", recoveries))  # only read


def _document(record: Record) -> Mapping[str, Any]:
    return watch_to_document(record) if isinstance(record, Watch) else to_document(record)


def _health(runtime: Runtime, collector: OffsetCollector, pulse: Pulse, now_s: float) -> Health:
    vitals = runtime.vitals
    return Health(
        role=vitals.role,
        is_loaded=vitals.is_loaded,
        loop_age_s=pulse.age_s,
        round_age_s=None if vitals.round_began_s is None else now_s - vitals.round_began_s,
        journal_failing_for_s=None if vitals.journal_failing_s is None else now_s - vitals.journal_failing_s,
        is_main_reachable=collector.is_main_reachable,
    )


def _samples(runtime: Runtime, params: Params, pulse: Pulse, clock: Clock) -> Iterator[Sample]:
    yield Sample(LEADER, (), 1.0 if runtime.vitals.role == "leader" else 0.0)
    yield Sample(LOOP_AGE, (), pulse.age_s)
    failing_s = runtime.vitals.journal_failing_s
    yield Sample(JOURNAL_FAILING, (), 0.0 if failing_s is None else clock.monotonic_s() - failing_s)
    if runtime.vitals.is_loaded:
        yield from gauges(runtime.state, clock.now_ms())
        yield from live_gauges(runtime.state, params.live, clock.now_ms())
        yield from details(runtime.state, clock.now_ms())

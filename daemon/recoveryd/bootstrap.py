"""Puts the daemon together from its settings: which adapter implements which port, and which part gets which values.
Nothing runs yet after `build`.

Every part is handed the values it needs, and none of them knows the settings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.make import Surroundings, make_controls
from recoveryd.adapters.http.metrics_page import CONTENT_TYPE, Metrics
from recoveryd.adapters.http.prometheus_queries import PrometheusQueries
from recoveryd.adapters.http.signed_posts import SignedPosts, WebhookTarget
from recoveryd.adapters.http.transition_posts import TransitionPosts
from recoveryd.adapters.http.webhooks import HttpWebhooks
from recoveryd.adapters.kafka.canary import KafkaCanary
from recoveryd.adapters.kafka.client_quotas import KafkaClientQuotas
from recoveryd.adapters.kafka.clusters import MAIN, KafkaClusters
from recoveryd.adapters.kafka.command_sender import KafkaCommandSender
from recoveryd.adapters.kafka.control_log import KafkaControlLog
from recoveryd.adapters.kafka.fact_gathering import Expectations
from recoveryd.adapters.kafka.group_offsets import KafkaGroupOffsets
from recoveryd.adapters.kafka.journal import KafkaJournal
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.adapters.kafka.living_clients import LivingProperties
from recoveryd.adapters.kafka.progress import KafkaProgressFeed
from recoveryd.adapters.kafka.retention import KafkaRetention
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.spark.attempt_logs import read_log
from recoveryd.adapters.spark.command import SparkProfile
from recoveryd.adapters.spark.runner import SparkJobs
from recoveryd.capabilities import make_capabilities, make_job
from recoveryd.collectors.canary import CanaryCollector
from recoveryd.collectors.offsets import Monitored, OffsetCollector
from recoveryd.collectors.queries import Query, QueryCollector
from recoveryd.collectors.retention import RetentionCollector
from recoveryd.collectors.secret_files import SecretFiles
from recoveryd.collectors.unit_files import UnitFiles
from recoveryd.kernel.decide import Decider
from recoveryd.kernel.events import Event
from recoveryd.kernel.metrics import Sample
from recoveryd.live.metrics import SIGNALS_REJECTED
from recoveryd.live.wire.page import control_document, lag_document
from recoveryd.metrics.book import MetricsBook
from recoveryd.metrics.definitions import (
    CANARY_PRODUCE,
    JOURNAL_FAILING,
    LEADER,
    LOOP_AGE,
    SECRET_REFUSED,
    WEBHOOK_WAITING,
)
from recoveryd.ports import ApplicationControl, Clock, Clusters, ControlRecord, Emit, Jobs, Journal, ProgressFeed
from recoveryd.recovery.params import Params
from recoveryd.renewal import SecretHolders
from recoveryd.runtime import ControlIntake, Inbox, Runtime
from recoveryd.runtime.health import Health, HealthServer, Sources
from recoveryd.runtime.history import RecordedCore
from recoveryd.runtime.interpreter import Interpreter
from recoveryd.runtime.loop import Core
from recoveryd.runtime.runners import command_runners, recovery_runners, watch_runners, workflow_runners
from recoveryd.settings import Settings
from recoveryd.settings.live import CANARY_READING
from recoveryd.settings.rereading import units_again
from recoveryd.telling import count_transition, transition_routes, transitions_in
from recoveryd.units.draft import units_in
from recoveryd.watches.effects import CallWebhook
from recoveryd.wire.codec import Codec
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


@dataclass(frozen=True, slots=True)
class Daemon:
    """The parts that run on their own; `recoveryd.app` starts, watches and ends them."""

    runtime: Runtime
    intake: ControlIntake
    interpreter: Interpreter
    collector: OffsetCollector
    readings: tuple[CanaryCollector | QueryCollector | RetentionCollector | UnitFiles | SecretFiles, ...]
    server: HealthServer
    journal: Journal
    clusters: Clusters
    jobs: Jobs
    progress: ProgressFeed
    applications: ApplicationControl
    pulse: Pulse
    unit_files: UnitFiles
    secret_files: SecretFiles
    secret_holders: SecretHolders
    inbox: Inbox
    remaining: Callable[[], Sequence[str]]  # ids with something left to do that waits for no person
    moving: Callable[[], Sequence[str]]  # ids that are not at rest yet after `Leaving`
    posts: TransitionPosts


def build(settings: Settings, read_again: Callable[[], Settings]) -> Daemon:
    """Make all parts. Call inside the event loop. `read_again` reads the config once more, as it was read before."""
    names, values, params = settings.topic_names, settings.values, settings.params()
    capabilities = make_capabilities(params, frozenset(values.webhooks))
    book = MetricsBook(capabilities)
    clock, inbox, metrics = SystemClock(), Inbox(), Metrics(book.metrics)
    pulse = Pulse(clock)
    clients = {name: LivingProperties(properties) for name, properties in settings.librdkafka_all().items()}
    accesses = {name: settings.access(name) for name in clients}
    profiles = spark_profiles(settings)
    slots = {name: profile.task_slots for name, profile in profiles.items()}
    clusters = KafkaClusters(
        clients,
        names,
        Expectations(slots, lambda: (runtime.measured_bytes_per_s, "measured")),
        clock.now_ms,
        values.topics.receipts_partitions,
        values.monitor.canary.clusters if values.monitor.is_canary_on else (),
        LeaderAnswers(accesses),
        accesses,
        lambda cluster, topic: applications.sinks_of(
            {name for name, unit in units_in(runtime.state, params.units).items() if unit.cluster == cluster}, topic
        ),
    )
    ledger = KafkaLedger(clients, names.receipts, values.scope, values.attempts.transaction_timeout, accesses)
    core: Core = (decider := Decider(capabilities))
    if values.log.events is not None:
        core = RecordedCore(core, params, frozenset(values.webhooks), Path(values.log.events), values.log.events_most)
    status, codec = StatusTopic(capabilities), Codec(capabilities)
    journal = KafkaJournal(clients[MAIN], names, values.scope, status, codec, clock.now_ms, lambda: accesses[MAIN])
    jobs = SparkJobs(
        profiles,
        make_job(settings.job_defaults(clients)),
        settings.work_dir,
        inbox.emit,
        withheld=settings.secret_variables,
    )
    progress = KafkaProgressFeed(clients[MAIN], names.progress, clock.now_ms)
    targets = webhook_targets(settings)
    around = surroundings(settings, targets, clock.now_ms)
    applications = make_controls(settings.control_options(), around)
    holders = SecretHolders(settings, clients, accesses, targets, applications, around)
    secrets = SecretFiles(holders.secrets(), clock)

    async def when_leading() -> None:
        await progress.start(inbox.emit)
        await jobs.start()
        await applications.start()

    def decode(record: ControlRecord) -> Event:
        return codec.decode_event(
            record.partition, record.offset, record.broker_ms, record.key, record.value, record.headers
        )

    quotas = KafkaClientQuotas(accesses, values.scope)
    webhooks = HttpWebhooks(targets, values.scope, inbox.emit, clock.now_ms)
    posts = TransitionPosts(
        transition_routes(settings), targets, values.scope, SignedPosts(clock.now_ms), count_transition(metrics)
    )
    steps = KafkaSteps(
        clients, accesses, lambda: units_in(runtime.state, params.units), applications, clock.now_ms, applications
    )
    sender = KafkaCommandSender(clients[MAIN], names.control, codec)

    async def when_ending() -> None:
        await webhooks.close()
        await sender.close()
        await steps.close()

    runners = {
        **recovery_runners(clusters, ledger, jobs, quotas, inbox.emit),
        **command_runners(sender),
        **workflow_runners(steps),
        **watch_runners(applications),
    }
    interpreter = Interpreter(runners, inbox.emit, {CallWebhook: webhooks.start}, when_ending)
    intake = ControlIntake(inbox, KafkaControlLog(clients[MAIN], names.control), decode)
    unit_files = UnitFiles(
        lambda: units_again(settings, read_again()), inbox.emit, lambda: runtime.vitals.role == "leader"
    )
    runtime = Runtime(
        core=core,
        journal=journal,
        clusters=clusters,
        when_leading=when_leading,
        effects=interpreter,
        inbox=inbox,
        intake=intake,
        clock=clock,
        metrics=metrics,
        book=book,
        freeze_s=values.faust.session_timeout / 2000,
        standing=unit_files.standing,
        tell=lambda decision: posts.tell(transitions_in(decision, status, clock.now_ms()) if posts.waiting else ()),
    )
    metrics.source = lambda: _samples(runtime, book, pulse, clock, secrets, posts)
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
        _canaries(settings, clients, inbox.emit, metrics, runtime, clock),
        _queries(settings, inbox.emit, metrics, runtime, clock),
        RetentionCollector(
            lambda: units_in(runtime.state, params.units).values(),
            KafkaRetention(clients),
            inbox.emit,
            lambda: runtime.vitals.role == "leader",
            clock,
        ),
        unit_files,
        secrets,
    )
    log_dir = settings.work_dir if values.http.logs else None
    sources = _sources(log_dir, runtime, core, status, params, collector, pulse, clock, metrics)
    server = HealthServer(sources, values.http.host, values.http.port)
    return Daemon(
        runtime,
        intake,
        interpreter,
        collector,
        readings,
        server,
        journal,
        clusters,
        jobs,
        progress,
        applications,
        pulse,
        unit_files,
        secrets,
        holders,
        inbox,
        remaining=lambda: decider.remaining(runtime.state, clock.now_ms()),
        moving=lambda: decider.moving(runtime.state, clock.now_ms()),
        posts=posts,
    )


def webhook_targets(settings: Settings) -> dict[str, WebhookTarget]:
    """Reads secret files; raises `ConfigProblem`."""
    return {name: WebhookTarget(*target) for name, target in settings.webhook_targets().items()}


def surroundings(settings: Settings, targets: Mapping[str, WebhookTarget], now_ms: Callable[[], int]) -> Surroundings:
    """Of the applications of units. `targets` of webhooks may change later."""
    installation = f"{settings.values.scope} on {settings.librdkafka(MAIN)['bootstrap.servers']}"
    return Surroundings(
        settings.work_dir / "applications",
        installation,
        settings.values.scope,
        targets,
        settings.environment,
        now_ms,
        settings.secret_variables,
    )


def _canaries(
    settings: Settings,
    clients: Mapping[str, LivingProperties],
    emit: Emit,
    metrics: Metrics,
    runtime: Runtime,
    clock: Clock,
) -> CanaryCollector:
    monitor = settings.values.monitor
    clusters = monitor.canary.clusters if monitor.is_canary_on else ()
    topic = settings.topic_names.canary
    return CanaryCollector(
        {name: KafkaCanary(name, clients[name], topic) for name in clusters},
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


def spark_profiles(settings: Settings) -> dict[str, SparkProfile]:
    """Reads secret files; raises `ConfigProblem`."""
    return {
        name: SparkProfile(p.master, p.driver_memory, settings.spark_conf(name), p.warm, p.slots, p.nice)
        for name, p in settings.values.profiles.items()
    }


def _sources(
    log_dir: Path | None,
    runtime: Runtime,
    core: Core,
    status: StatusTopic,
    params: Params,
    collector: OffsetCollector,
    pulse: Pulse,
    clock: Clock,
    metrics: Metrics,
) -> Sources:
    return Sources(
        health=lambda: _health(runtime, collector, pulse, clock.monotonic_s()),
        recoveries=lambda: core.known(runtime.state),
        metrics=metrics.render,
        document=status.document,
        metrics_content_type=CONTENT_TYPE,
        lag=lambda: lag_document(runtime.state, params.live, clock.now_ms()),
        log=None if log_dir is None else partial(read_log, log_dir),
        control=lambda: control_document(runtime.state, params.live, params.control, clock.now_ms()),
    )


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


def _samples(
    runtime: Runtime, book: MetricsBook, pulse: Pulse, clock: Clock, secrets: SecretFiles, posts: TransitionPosts
) -> Iterator[Sample]:
    yield Sample(LEADER, (), 1.0 if runtime.vitals.role == "leader" else 0.0)
    yield Sample(LOOP_AGE, (), pulse.age_s)
    for name, is_refused in secrets.refused.items():
        yield Sample(SECRET_REFUSED, (name,), float(is_refused))
    for name, waiting in posts.waiting.items():
        yield Sample(WEBHOOK_WAITING, (name,), float(waiting))
    failing_s = runtime.vitals.journal_failing_s
    yield Sample(JOURNAL_FAILING, (), 0.0 if failing_s is None else clock.monotonic_s() - failing_s)
    if runtime.vitals.is_loaded:
        yield from book.gauges(runtime.state, clock.now_ms())

"""What a leader looks at on a schedule: offsets and groups, live traffic, how long inputs are kept, and files that may
have changed. Each sample is an event for the core.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.adapters.http.prometheus_queries import PrometheusQueries
from recoveryd.adapters.kafka.canary import KafkaCanary
from recoveryd.adapters.kafka.group_offsets import KafkaGroupOffsets
from recoveryd.adapters.kafka.living_clients import LivingProperties
from recoveryd.adapters.kafka.retention import KafkaRetention
from recoveryd.bootstrap.outside import Outside
from recoveryd.bootstrap.running import Running
from recoveryd.collectors.canary import CanaryCollector
from recoveryd.collectors.control_topic import ControlTopicWatch
from recoveryd.collectors.offsets import Monitored, OffsetCollector
from recoveryd.collectors.queries import Query, QueryCollector
from recoveryd.collectors.retention import RetentionCollector
from recoveryd.collectors.secret_files import SecretFiles
from recoveryd.collectors.unit_files import UnitFiles
from recoveryd.kernel.metrics import Sample
from recoveryd.live.metrics import SIGNALS_REJECTED
from recoveryd.metrics.definitions import CANARY_PRODUCE
from recoveryd.ports import Clock, Emit
from recoveryd.runtime import ControlIntake
from recoveryd.settings import Settings
from recoveryd.settings.live import CANARY_READING
from recoveryd.settings.rereading import units_again

Reading = CanaryCollector | QueryCollector | RetentionCollector | UnitFiles | SecretFiles


@dataclass(frozen=True, slots=True)
class Looks:
    """`readings` are all but `collector`, which also says whether the main cluster is reachable."""

    collector: OffsetCollector
    readings: tuple[Reading, ...]


def make_unit_files(settings: Settings, read_again: Callable[[], Settings], emit: Emit, running: Running) -> UnitFiles:
    return UnitFiles(lambda: units_again(settings, read_again()), emit, running.is_leader)


def make_looks(
    settings: Settings,
    outside: Outside,
    unit_files: UnitFiles,
    emit: Emit,
    clock: Clock,
    metrics: Metrics,
    running: Running,
    intake: ControlIntake,
) -> Looks:
    monitor = settings.values.monitor
    period_s = monitor.interval / 1000
    collector = OffsetCollector(
        outside.clusters,
        KafkaGroupOffsets(outside.clients, period_s=period_s),
        emit,
        running.state_of_leader,
        clock,
        control=ControlTopicWatch(outside.clusters, intake, emit, lambda: running.runtime.waits_for_journal),
        period_s=period_s,
        monitored=[Monitored(m.cluster, m.topic, m.group) for m in monitor.topics],
    )
    readings = (
        _canaries(settings, outside.clients, emit, metrics, running, clock),
        _queries(settings, emit, metrics, running, clock),
        RetentionCollector(
            lambda: running.units().values(), KafkaRetention(outside.clients), emit, running.is_leader, clock
        ),
        unit_files,
        outside.secrets,
    )
    return Looks(collector, readings)


def _canaries(
    settings: Settings,
    clients: Mapping[str, LivingProperties],
    emit: Emit,
    metrics: Metrics,
    running: Running,
    clock: Clock,
) -> CanaryCollector:
    monitor = settings.values.monitor
    clusters = monitor.canary.clusters if monitor.is_canary_on else ()
    topic = settings.topic_names.canary
    return CanaryCollector(
        {name: KafkaCanary(name, clients[name], topic) for name in clusters},
        emit,
        lambda cluster, seconds: metrics.observe(CANARY_PRODUCE, seconds, (cluster,)),
        running.is_leader,
        clock,
        name=CANARY_READING,
        every_s=monitor.canary.every / 1000,
        reading_every_s=settings.values.control.period / 1000,
    )


def _queries(settings: Settings, emit: Emit, metrics: Metrics, running: Running, clock: Clock) -> QueryCollector:
    wanted = settings.values.monitor.prometheus
    return QueryCollector(
        [Query(q.name, q.cluster, q.url, q.query, q.every / 1000) for q in wanted],
        PrometheusQueries(),
        emit,
        lambda reason: metrics.add([Sample(SIGNALS_REJECTED, (reason.value,), 1)]),
        running.is_leader,
        clock,
    )

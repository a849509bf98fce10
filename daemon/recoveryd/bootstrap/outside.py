"""Everything outside of the daemon, as the adapters behind its ports: clusters, the ledger, Spark applications, the
applications of units, webhooks, and the secrets that reach them.

Nothing connects or starts here. What the core decides with is not made here, but in `loop`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from recoveryd.adapters.control import login_files
from recoveryd.adapters.control.controls import UnitControls
from recoveryd.adapters.control.login_files import LoginFiles
from recoveryd.adapters.control.make import Surroundings, make_controls
from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.adapters.http.signed_posts import SignedPosts, WebhookTarget
from recoveryd.adapters.http.transition_posts import TransitionPosts
from recoveryd.adapters.http.webhooks import HttpWebhooks
from recoveryd.adapters.kafka.client_quotas import KafkaClientQuotas
from recoveryd.adapters.kafka.clusters import MAIN, KafkaClusters
from recoveryd.adapters.kafka.command_sender import KafkaCommandSender
from recoveryd.adapters.kafka.fact_gathering import Expectations
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.adapters.kafka.living_clients import LivingProperties
from recoveryd.adapters.kafka.progress import KafkaProgressFeed
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.spark.command import SparkProfile
from recoveryd.adapters.spark.runner import SparkJobs
from recoveryd.bootstrap.running import Running
from recoveryd.capabilities import make_job
from recoveryd.collectors.secret_files import SecretFiles
from recoveryd.ports import Clock, Emit
from recoveryd.renewal import SecretHolders
from recoveryd.settings import Settings
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.telling import count_transition, transition_routes
from recoveryd.wire.codec import Codec


@dataclass(frozen=True, slots=True)
class Outside:
    """`clients` and `accesses` by cluster; their secrets may be renewed (`holders`)."""

    clients: Mapping[str, LivingProperties] = field(repr=False)
    accesses: Mapping[str, ClientAccess] = field(repr=False)
    clusters: KafkaClusters
    ledger: KafkaLedger
    quotas: KafkaClientQuotas
    steps: KafkaSteps
    sender: KafkaCommandSender
    jobs: SparkJobs
    progress: KafkaProgressFeed
    applications: UnitControls
    webhooks: HttpWebhooks
    posts: TransitionPosts
    holders: SecretHolders
    secrets: SecretFiles

    async def start(self, emit: Emit) -> None:
        """What a leader needs and nobody else."""
        await self.progress.start(emit)
        await self.jobs.start()
        await self.applications.start()

    async def close(self) -> None:
        """What effects used."""
        await self.webhooks.close()
        await self.sender.close()
        await self.steps.close()


def make_outside(
    settings: Settings, codec: Codec, emit: Emit, clock: Clock, metrics: Metrics, running: Running
) -> Outside:
    """Reads secret files; raises `ConfigProblem`."""
    names, values = settings.topic_names, settings.values
    clients = {name: LivingProperties(properties) for name, properties in settings.librdkafka_all().items()}
    accesses = {name: settings.access(name) for name in clients}
    profiles = spark_profiles(settings)
    targets = webhook_targets(settings)
    around = surroundings(settings, targets, clock.now_ms)
    around = replace(around, login_files=LoginFiles(settings.work_dir / login_files.NAME))
    applications = make_controls(settings.control_options(), around)
    holders = SecretHolders(settings, clients, accesses, targets, applications, around)
    return Outside(
        clients,
        accesses,
        _make_clusters(settings, clients, accesses, profiles, applications, clock, running),
        KafkaLedger(clients, names.receipts, values.scope, values.attempts.transaction_timeout, accesses),
        KafkaClientQuotas(accesses, values.scope),
        KafkaSteps(clients, accesses, running.units, applications, clock.now_ms, applications),
        KafkaCommandSender(clients[MAIN], names.control, codec),
        SparkJobs(
            profiles,
            make_job(settings.job_defaults(clients)),
            settings.work_dir,
            emit,
            withheld=settings.secret_variables,
        ),
        KafkaProgressFeed(clients[MAIN], names.progress, clock.now_ms),
        applications,
        HttpWebhooks(targets, values.scope, emit, clock.now_ms),
        TransitionPosts(
            transition_routes(settings), targets, values.scope, SignedPosts(clock.now_ms), count_transition(metrics)
        ),
        holders,
        SecretFiles(holders.secrets(), clock),
    )


def _make_clusters(
    settings: Settings,
    clients: Mapping[str, LivingProperties],
    accesses: Mapping[str, ClientAccess],
    profiles: Mapping[str, SparkProfile],
    applications: UnitControls,
    clock: Clock,
    running: Running,
) -> KafkaClusters:
    values = settings.values
    return KafkaClusters(
        clients,
        settings.topic_names,
        Expectations({name: profile.task_slots for name, profile in profiles.items()}, running.measured),
        clock.now_ms,
        values.topics.receipts_partitions,
        values.monitor.canary.clusters if values.monitor.is_canary_on else (),
        LeaderAnswers(accesses),
        accesses,
        lambda cluster, topic: applications.sinks_of(
            {name for name, unit in running.units().items() if unit.cluster == cluster}, topic
        ),
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


def spark_profiles(settings: Settings) -> dict[str, SparkProfile]:
    """Reads secret files; raises `ConfigProblem`."""
    return {
        name: SparkProfile(p.master, p.driver_memory, settings.spark_conf(name), p.warm, p.slots, p.nice)
        for name, p in settings.values.profiles.items()
    }

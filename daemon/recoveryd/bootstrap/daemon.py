"""The whole daemon: all parts, made in the order in which they need each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.adapters.http.transition_posts import TransitionPosts
from recoveryd.bootstrap.looks import Reading, make_looks, make_unit_files
from recoveryd.bootstrap.loop import make_loop
from recoveryd.bootstrap.outside import make_outside
from recoveryd.bootstrap.pages import Pulse, make_sources, own_samples
from recoveryd.bootstrap.running import Running
from recoveryd.capabilities import make_capabilities
from recoveryd.collectors.offsets import OffsetCollector
from recoveryd.collectors.secret_files import SecretFiles
from recoveryd.collectors.unit_files import UnitFiles
from recoveryd.live.params import look_counts_ms
from recoveryd.metrics.book import MetricsBook
from recoveryd.ports import ApplicationControl, Clusters, Jobs, Journal, ProgressFeed
from recoveryd.renewal import SecretHolders
from recoveryd.runtime import ControlIntake, Inbox, Runtime
from recoveryd.runtime.health import HealthServer
from recoveryd.runtime.interpreter import Interpreter
from recoveryd.settings import Settings
from recoveryd.wire.codec import Codec
from recoveryd.wire.status_topic import StatusTopic


@dataclass(frozen=True, slots=True)
class Daemon:
    """The parts that run on their own; `recoveryd.app` starts, watches and ends them."""

    runtime: Runtime
    intake: ControlIntake
    interpreter: Interpreter
    collector: OffsetCollector
    readings: tuple[Reading, ...]
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
    params = settings.params()
    capabilities = make_capabilities(params)
    status, codec, book = StatusTopic(capabilities), Codec(capabilities), MetricsBook(capabilities)
    clock, inbox = SystemClock(), Inbox()
    metrics = Metrics(book.metrics, live_kept_s=look_counts_ms(settings.values.monitor.interval) / 1000)
    pulse, running = Pulse(clock), Running(params.units)
    outside = make_outside(settings, codec, inbox.emit, clock, metrics, running)
    unit_files = make_unit_files(settings, read_again, inbox.emit, running)
    loop = make_loop(
        settings, params, capabilities, codec, status, outside, inbox, clock, metrics, book, unit_files.standing
    )
    running.set(loop.runtime)
    looks = make_looks(settings, outside, unit_files, inbox.emit, clock, metrics, running, loop.intake)
    metrics.source = lambda: own_samples(
        loop.runtime, book, pulse, clock, outside.secrets, outside.posts, looks.collector
    )
    metrics.is_leader = running.is_leader
    http = settings.values.http
    log_dir = settings.work_dir if http.logs else None
    sources = make_sources(log_dir, loop.runtime, loop.core, status, params, looks.collector, pulse, clock, metrics)
    return Daemon(
        runtime=loop.runtime,
        intake=loop.intake,
        interpreter=loop.interpreter,
        collector=looks.collector,
        readings=looks.readings,
        server=HealthServer(sources, http.host, http.port),
        journal=loop.journal,
        clusters=outside.clusters,
        jobs=outside.jobs,
        progress=outside.progress,
        applications=outside.applications,
        pulse=pulse,
        unit_files=unit_files,
        secret_files=outside.secrets,
        secret_holders=outside.holders,
        inbox=inbox,
        remaining=lambda: loop.decider.remaining(running.state, clock.now_ms()),
        moving=lambda: loop.decider.moving(running.state, clock.now_ms()),
        posts=outside.posts,
    )

"""What decides and acts: the core with its journal, the way in for control records and the way out for effects.

What it reaches outside is handed to it (`outside`); what is looked at regularly is made in `looks`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.adapters.kafka.clusters import MAIN
from recoveryd.adapters.kafka.control_log import KafkaControlLog
from recoveryd.adapters.kafka.journal import KafkaJournal
from recoveryd.bootstrap.outside import Outside
from recoveryd.kernel.capability import Capability
from recoveryd.kernel.decide import Decider
from recoveryd.kernel.events import Event
from recoveryd.metrics.book import MetricsBook
from recoveryd.params import CapabilityParams
from recoveryd.ports import Clock, ControlRecord
from recoveryd.runtime import ControlIntake, Inbox, Runtime
from recoveryd.runtime.freezes import FreezeGuard
from recoveryd.runtime.history import RecordedCore
from recoveryd.runtime.interpreter import Interpreter
from recoveryd.runtime.loop import Core
from recoveryd.runtime.runners import command_runners, recovery_runners, watch_runners, workflow_runners
from recoveryd.settings import Settings
from recoveryd.telling import transitions_in
from recoveryd.watches.effects import CallWebhook
from recoveryd.wire.codec import Codec
from recoveryd.wire.status_topic import StatusTopic

# Of the time in which an attempt has to be heard: what it last said was some seconds old already when nothing more was
# heard, and it takes some until it is heard again.
DEAF_SHARE: Final = 0.75


@dataclass(frozen=True, slots=True)
class Loop:
    """`core` is `decider`, or records what it decides."""

    decider: Decider
    core: Core
    journal: KafkaJournal
    interpreter: Interpreter
    intake: ControlIntake
    runtime: Runtime


def make_loop(
    settings: Settings,
    params: CapabilityParams,
    capabilities: Sequence[Capability[Any]],
    codec: Codec,
    status: StatusTopic,
    outside: Outside,
    inbox: Inbox,
    clock: Clock,
    metrics: Metrics,
    book: MetricsBook,
    standing: Callable[[], Sequence[Event]],
) -> Loop:
    """`standing`: what a new leader is told that holds already."""
    names, values, main = settings.topic_names, settings.values, outside.clients[MAIN]
    decider = Decider(capabilities)
    core = _recorded(settings, params, decider)
    journal = KafkaJournal(main, names, values.scope, status, codec, clock.now_ms, lambda: outside.accesses[MAIN])
    freezes = FreezeGuard(clock, values.faust.session_timeout / 2000)
    interpreter = _make_interpreter(outside, inbox, freezes)
    intake = ControlIntake(inbox, KafkaControlLog(main, names.control), _decoding(codec))
    posts = outside.posts
    runtime = Runtime(
        core=core,
        journal=journal,
        clusters=outside.clusters,
        when_leading=partial(outside.start, inbox.emit),
        effects=interpreter,
        inbox=inbox,
        intake=intake,
        clock=clock,
        metrics=metrics,
        book=book,
        freezes=freezes,
        deaf_s=values.attempts.heartbeat_timeout * DEAF_SHARE / 1000,
        standing=standing,
        tell=lambda decision: posts.tell(transitions_in(decision, status, clock.now_ms()) if posts.waiting else ()),
    )
    return Loop(decider, core, journal, interpreter, intake, runtime)


def _recorded(settings: Settings, params: CapabilityParams, decider: Decider) -> Core:
    log = settings.values.log
    return decider if log.events is None else RecordedCore(decider, params, Path(log.events), log.events_most)


def _make_interpreter(outside: Outside, inbox: Inbox, freezes: FreezeGuard) -> Interpreter:
    runners = {
        **recovery_runners(outside.clusters, outside.ledger, outside.jobs, outside.quotas, inbox.emit),
        **command_runners(outside.sender),
        **workflow_runners(outside.steps),
        **watch_runners(outside.applications),
    }
    begin: dict[type, Callable[[Any], None]] = {CallWebhook: outside.webhooks.start}
    return Interpreter(runners, inbox.emit, begin, outside.close, freezes.until_may_act)


def _decoding(codec: Codec) -> Callable[[ControlRecord], Event]:
    return lambda record: codec.decode_event(
        record.partition, record.offset, record.broker_ms, record.key, record.value, record.headers
    )

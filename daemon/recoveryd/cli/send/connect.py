"""Where recoveryd is, as far as a command line says, and the backend that this leads to.

The client libraries are used by `recoveryd.adapters` only, and imported when a verb first needs one: help and offline
verbs load none.
"""

import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recoveryd.cli.send.backend import Backend

if TYPE_CHECKING:
    from recoveryd.adapters.kafka.clusters import KafkaClusters
    from recoveryd.settings import Settings

from recoveryd.cli.failure import invalid, usage
from recoveryd.cli.render.output import detail, is_interactive
from recoveryd.cli.send.contexts import BOOTSTRAP, Context, Contexts
from recoveryd.cli.send.places import (
    refuse_contradiction,
    refuse_foreign_login,
    with_brokers,
    without_places,
)
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.spelling import did_you_mean
from recoveryd.wire.topics import TopicNames

DAEMON_HINT = "Give --http HOST:PORT, or make the context again with it: `recoveryctl context add NAME --replace`."
_NOWHERE = "unset:9092"  # stands in where only names are wanted


def open_backend(connection: "Connection") -> Backend:
    """Kafka, with status from the HTTP API instead when `--http` says so."""
    from recoveryd.cli.send.http_reader import HttpReader  # noqa: PLC0415

    def make_kafka() -> Backend:
        settings = connection.settings  # first: without an address no client need be loaded
        from recoveryd.cli.send.kafka_backend import KafkaBackend  # noqa: PLC0415

        return KafkaBackend(settings)

    return make_kafka() if connection.http is None else HttpReader(connection.http, make_kafka)


def known_cluster(settings: "Settings", name: str) -> str:
    """The name, where the config has a cluster of it. Raises `Failure`."""
    names = settings.values.clusters
    if name in names:
        return name
    hint = did_you_mean(name, names, f"The config has {', '.join(names)}.")
    raise invalid(Code.UNKNOWN_CLUSTER, f"The config has no cluster `{name}`.", hint)


@dataclass(slots=True)
class Tools:
    """What the verbs take from outside, in one place, so that a test can hand them something else."""

    open_backend: Callable[["Connection"], Backend] = open_backend
    is_interactive: Callable[[], bool] = is_interactive


class Connection:
    """Where recoveryd is, as far as the command line says. Config and backend are opened when first needed."""

    def __init__(
        self,
        bootstrap: str | None,
        config: Path | None,
        http: str | None,
        tools: Tools,
        context: str | None = None,
        typed: Sequence[str] = (),
        variables: Collection[str] = (),
    ) -> None:
        """`context` is named; without one, and without brokers and config, the one in use is taken. `typed`: the words
        of the command line that say where recoveryd is, for one that is to be typed next. `variables`: which of
        `bootstrap` and `config` come from a variable and are not typed.
        """
        self.bootstrap = bootstrap
        self.config = config
        self.tools = tools
        self.typed = tuple(typed)
        self._http = http
        self._variables = frozenset(variables)
        self._is_named = context is not None
        self._context_name = context
        self._backend: Backend | None = None
        self._settings: Settings | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._backend is not None:
            self._backend.close()

    @cached_property
    def context(self) -> Context | None:
        """The context in force, read when first needed. Raises `Failure`."""
        contexts, name = Contexts(os.environ), self._context_name
        if name is None and self.bootstrap is None and self.config is None and not with_brokers(os.environ):
            name = contexts.current()
        return None if name is None else contexts.read(name)

    @property
    def brokers(self) -> str | None:
        """As typed, or as the context says; None where a config says it, or nobody."""
        found = self.bootstrap if self.context is None else self.context.properties.get(BOOTSTRAP)
        return None if found is None else str(found)

    @property
    def http(self) -> str | None:
        """Where status is read instead of from the topic: as given, or from the daemon of a context without brokers."""
        if self._http is None and self.context is not None and not self.context.has_brokers:
            return self.context.daemon
        return self._http

    @property
    def settings(self) -> "Settings":
        """The config in force. Raises `ConfigProblem`, or `Failure` where a variable contradicts what is typed."""
        if self._settings is None:
            self._refuse_contradiction()
            self._settings = self._load()
            place = self._settings.values.clusters["main"]["bootstrap.servers"]
            detail(f"Brokers: {place}" + (f" (context {self.context.name})." if self.context else "."))
        return self._settings

    @property
    def settings_of_daemon(self) -> "Settings":
        """What a daemon would read that got the same words and variables: these come before a file then, typed or not.
        Nothing is to be asked with them. Raises `ConfigProblem`.
        """
        return self._load()

    @property
    def origin(self) -> str:
        """Where the config comes from, for people."""
        if self.context is not None:
            return f"the context `{self.context.name}`, {self.context.file}"
        return str(self.config or "from the environment and flags")

    @property
    def names(self) -> TopicNames:
        """Names of the own topics under the configured prefix, also when nothing says where the brokers are."""
        return self._settings_of_names().topic_names

    @property
    def knows_daemon(self) -> bool:
        """Whether anything says where the daemon is. A context with brokers alone does not: a daemon on this machine
        would be that of others.
        """
        return self._http is not None or self.context is None or self.context.daemon is not None

    @property
    def daemon_url(self) -> str:
        """The daemon's HTTP API: as given, or where the config lets it listen; also when nothing says where the brokers
        are. Raises `Failure` where nothing says it.
        """
        if not self.knows_daemon:
            name = self.context.name if self.context is not None else ""
            raise usage(f"The context `{name}` does not say where its daemon answers.", DAEMON_HINT)
        if self._http is not None:
            return self._http
        if self.context is not None and self.context.daemon is not None:
            return self.context.daemon
        listen = self._settings_of_names().values.http
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen.host, listen.host)  # noqa: S104  (where to ask, not to listen)
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{listen.port}"

    @property
    def backend(self) -> Backend:
        if self._backend is None:
            self._backend = self.tools.open_backend(self)
        return self._backend

    @asynccontextmanager
    async def clusters(self) -> AsyncIterator["KafkaClusters"]:
        """The clusters of the config, for the verbs that ask brokers and not the daemon."""
        from recoveryd.adapters.kafka.clusters import KafkaClusters  # noqa: PLC0415
        from recoveryd.adapters.kafka.fact_gathering import Expectations  # noqa: PLC0415

        settings, values = self.settings, self.settings.values
        clusters = KafkaClusters(
            settings.librdkafka_all(),
            settings.topic_names,
            Expectations({}),
            _now_ms,
            values.topics.receipts_partitions,
            values.monitor.canary.clusters if values.monitor.is_canary_on else (),
        )
        try:
            yield clusters
        finally:
            await clusters.close()

    def _settings_of_names(self) -> "Settings":
        if self._settings is not None:
            return self._settings
        self._refuse_contradiction()
        return self._load(_NOWHERE)

    def _load(self, otherwise: str | None = None) -> "Settings":
        """`otherwise`: brokers, where neither words nor a variable that is made for them say any."""
        from recoveryd.settings import load  # noqa: PLC0415  (pydantic is slow to import)

        bootstrap = self._typed_bootstrap if self.bootstrap else otherwise  # a variable is read with all the others
        if self.context is None:
            return load(self.config, bootstrap)
        # What is named is meant, whatever variables say of brokers.
        environment = without_places(os.environ) if self._is_named else dict(os.environ)
        return load(None, bootstrap, environment, base=self.context.as_tree())

    @property
    def _typed_bootstrap(self) -> str | None:
        return None if "bootstrap" in self._variables else self.bootstrap

    def _refuse_contradiction(self) -> None:
        if self.config is not None and "config" not in self._variables:
            refuse_contradiction(self.config, os.environ, self._typed_bootstrap)
        elif self._typed_bootstrap:
            refuse_foreign_login(self.config, os.environ, self._typed_bootstrap)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

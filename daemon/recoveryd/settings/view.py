"""The effective settings, in the forms that other modules need: core parameters, topic names, client properties, the
defaults of jobs, and a listing to show.

Folders of the user are found without a library, here, in `cli.send.contexts` and in the sandbox: it takes one line, it
must use the environment that was passed in, and a library would choose other folders on a Mac.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from recoveryd.params import CapabilityParams
from recoveryd.recovery.job_specs import JobDefaults
from recoveryd.settings.kafka_properties import ClientAccess, read_access, to_librdkafka
from recoveryd.settings.model import SettingsModel
from recoveryd.settings.params import make_params
from recoveryd.settings.secrets import read_secret, shown_secret
from recoveryd.settings.sources import Key, Origin, origin_of, path_of
from recoveryd.settings.unit_control import ControlOptions
from recoveryd.settings.unit_files import make_unit
from recoveryd.units.model import Unit
from recoveryd.wire.topics import OwnTopic, TopicNames, own_topics
from recoveryd_jobs.contract import ChunkLimits

DEFAULT: Final = "default"
# In names of Spark's properties, and in what their values set (-Djavax.net.ssl.keyStorePassword=...).
_HIDDEN: Final = (
    r"passw|passphrase|secret|token|credential|(?<![a-z])key(?![a-z])"
    r"|(?:access|account|api|encryption|private|shared)[._-]?key"
)
_HIDDEN_NAME: Final = re.compile(_HIDDEN, flags=re.IGNORECASE)
_HIDDEN_INSIDE: Final = re.compile(rf"(?:{_HIDDEN})[^\s=]*=|://[^\s/@]*:[^\s/@]*@", flags=re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ShownValue:
    """One line of `config show`: dotted key, value as JSON-like plain data with secrets masked, and where it comes
    from.
    """

    key: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """`values` has the options by section; durations in ms, sizes in bytes."""

    values: SettingsModel
    origins: Mapping[Key, Origin]
    given: frozenset[Key]  # the keys of values that some source gave
    shown_clusters: Mapping[str, Mapping[str, str]]
    environment: Mapping[str, str] = field(repr=False)
    written_clusters: Mapping[str, Mapping[str, Any]] = field(repr=False)  # before secrets were looked up
    secret_variables: frozenset[str] = frozenset()  # those that the config refers to: no child process gets them

    @property
    def topic_names(self) -> TopicNames:
        return TopicNames(self.values.topics.prefix)

    @property
    def own_topics(self) -> tuple[OwnTopic, ...]:
        return own_topics(self.topic_names, self.values.topics.receipts_partitions)

    @property
    def group(self) -> str:
        """Consumer group of the control topic."""
        return self.values.faust.group or f"recoveryd.{self.values.scope}"

    @property
    def work_dir(self) -> Path:
        """Where attempts keep logs and spec files; this does not create it. Raises `ConfigProblem`."""
        key = ("work_dir",)
        origin = origin_of(key, self.origins)
        if self.values.work_dir is not None:
            return path_of(self.values.work_dir, key, origin)
        state_home = self.environment.get("XDG_STATE_HOME", "")
        return (Path(state_home) if state_home else path_of("~/.local/state", key, origin)) / "recoveryd"

    def access(self, cluster: str = "main") -> ClientAccess:
        """How to reach a cluster. Raises KeyError for a name that is not in the config."""
        return read_access(self.values.clusters[cluster])

    def librdkafka(self, cluster: str = "main") -> dict[str, str]:
        """Librdkafka properties of a cluster, secrets included: never log them. Raises KeyError for a name that is not
        in the config.
        """
        return to_librdkafka(self.values.clusters[cluster])

    def librdkafka_all(self) -> dict[str, dict[str, str]]:
        return {name: self.librdkafka(name) for name in self.values.clusters}

    def params(self) -> CapabilityParams:
        """What each capability gets from the config. Reads the texts of topologies; raises `ConfigProblem`."""
        return make_params(self.values, frozenset(self.topic_names.all), self.units())

    def units(self) -> dict[str, Unit]:
        """Every unit. Reads the texts of topologies; raises `ConfigProblem`."""
        return {name: make_unit(name, section, self.origins) for name, section in self.values.units.items()}

    def control_options(self) -> dict[str, ControlOptions]:
        """By unit."""
        return {
            name: ControlOptions(name, unit.group, unit.control, self.origins, self.environment)
            for name, unit in self.values.units.items()
        }

    def webhook_targets(self) -> dict[str, tuple[str, bytes]]:
        """URL and key of each webhook: never log them. Reads secret files; raises `ConfigProblem`."""
        return {name: self.webhook_target(name) for name in self.values.webhooks}

    def webhook_target(self, name: str) -> tuple[str, bytes]:
        """As `webhook_targets`."""
        webhook = self.values.webhooks[name]
        where = (name, self.origins, self.environment)
        return webhook.read_url(*where), webhook.read_secret(*where)

    def spark_conf(self, profile: str) -> dict[str, str]:
        """Spark's properties of a profile, secrets included: never log them. Reads secret files; raises
        `ConfigProblem`.
        """
        return {
            name: read_secret(("profiles", profile, "conf", name), text, self.origins, self.environment)
            for name, text in self.values.profiles[profile].conf.items()
        }

    def job_defaults(self, clients: Mapping[str, Mapping[str, str]]) -> JobDefaults:
        """The values that every attempt has in common. `clients`: librdkafka properties by cluster, as they are when an
        attempt begins.
        """
        v, names = self.values, self.topic_names
        return JobDefaults(
            scope=v.scope,
            clients=clients,
            directives_topic=names.directives,
            progress_topic=names.progress,
            receipts_topic=names.receipts,
            chunk=ChunkLimits(v.chunk.max_bytes, v.chunk.max_records, v.chunk.max_interval),
            transaction_timeout_ms=v.attempts.transaction_timeout,
            stop_wait_ms=v.attempts.stop_wait,
            orphan_after_ms=v.lease.orphan_after,
        )

    def show(self) -> list[ShownValue]:
        """Every option with its effective value and origin, in the order of the reference; secrets are masked."""
        document = self.values.model_dump(mode="json") | {"clusters": self.shown_clusters}
        return [
            ShownValue(".".join(key), _masked(key, value), self._origin(key)) for key, value in leaves(document, ())
        ]

    def _origin(self, key: Key) -> str:
        given = any(key[:length] in self.given for length in range(1, len(key) + 1))
        return str(origin_of(key, self.origins)) if given else DEFAULT


def leaves(value: Any, key: Key) -> list[tuple[Key, Any]]:
    """Every value of a tree that is not a section, with its key."""
    if isinstance(value, Mapping) and value:
        return [leaf for name, inner in value.items() for leaf in leaves(inner, (*key, name))]
    return [(key, value)]


def _masked(key: Key, value: Any) -> Any:
    if key[0] != "profiles" or not isinstance(value, str):
        return value
    is_secret = _HIDDEN_NAME.search(key[-1]) or _HIDDEN_INSIDE.search(value)
    return shown_secret(value) if is_secret else value

"""Clients that go with their login: properties whose secrets change while the daemon runs, and clients that are made
anew when they did.

A client takes its login and its certificates once, when it is made, and reconnects with them for ever. So whoever keeps
one compares the version of its properties and makes another; nothing is pushed into clients that other threads use or
have closed.
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_admin
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code


class LivingProperties(dict[str, Any]):
    """Librdkafka properties of one cluster, shared by all who make clients from them. `version` grows with each change
    of a secret.
    """

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self.version = 0

    def __repr__(self) -> str:
        """Without values: some are passwords."""
        return f"LivingProperties({sorted(self)}, version={self.version})"

    def renew(self, properties: Properties) -> None:
        """Take these from now on. Also where the same paths are named, since what the files hold may be new."""
        for name in self.keys() - properties.keys():
            del self[name]
        self.update(properties)
        self.version += 1


def version_of(properties: Properties) -> int:
    """Always 0 of properties that do not change."""
    return properties.version if isinstance(properties, LivingProperties) else 0


class AdminClients:
    """One per cluster, made when first needed, and anew when its login changed. `clusters`: properties by name."""

    def __init__(self, clusters: Mapping[str, Properties]) -> None:
        self._clusters = clusters
        self._made: dict[str, tuple[int, AdminClient]] = {}

    def of(self, cluster: str) -> AdminClient:
        """Raises `ClusterProblem` for a name that is not known."""
        properties = self.properties(cluster)
        version = version_of(properties)
        made = self._made.get(cluster)
        if made is None or made[0] != version:
            made = self._made[cluster] = version, make_admin(properties)
        return made[1]

    def properties(self, cluster: str) -> Properties:
        """Raises `ClusterProblem` for a name that is not known."""
        if cluster not in self._clusters:
            raise ClusterProblem(f"There is no cluster named {cluster}.", code=Code.UNKNOWN_CLUSTER, retriable=False)
        return self._clusters[cluster]

    def version(self, cluster: str) -> int:
        return version_of(self.properties(cluster))

    def drop(self, cluster: str) -> None:
        """Make another one next time: the library may have lost sight of a cluster that came back."""
        self._made.pop(cluster, None)

    def clear(self) -> None:
        self._made.clear()

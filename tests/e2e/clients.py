"""How the tests' own clients connect: by the cluster's address alone, or with the properties that were noted for a
secured cluster's address.
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer

_KNOWN: dict[str, Mapping[str, str]] = {}


def note_access(bootstrap: str, properties: Mapping[str, str]) -> None:
    """From now on clients for `bootstrap` use these librdkafka properties."""
    _KNOWN[bootstrap] = dict(properties)


def client(bootstrap: str) -> dict[str, Any]:
    """Librdkafka's properties of a client for `bootstrap`; plain text unless noted otherwise."""
    return {**_KNOWN.get(bootstrap, {}), "bootstrap.servers": bootstrap}


def writer(bootstrap: str, **settings: Any) -> Producer:
    """A producer that writes each record once and in order. One without idempotence would write a batch that was
    refused, for instance by a leader that is not ready yet, after later ones.
    """
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({**client(bootstrap), "log_level": 0, "enable.idempotence": True, **named})

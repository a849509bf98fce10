"""Configs of topics that somebody sets beside the product."""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.topic_admin import change_configs, read_own_configs
from tests.e2e.clients import client
from tests.e2e.processes import wait_for

_DEADLINE_S = 120.0


def set_configs(bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
    """The broker tells them when this returns: it answers a change a moment before."""
    admin = AdminClient(client(bootstrap))
    change_configs(admin, {topic: configs}, _DEADLINE_S)
    await_configs(bootstrap, topic, own_configs(bootstrap, topic) | dict(configs))


def await_configs(bootstrap: str, topic: str, wanted: Mapping[str, str]) -> None:
    """Until the topic itself has these, and no others."""
    wait_for(
        lambda: own_configs(bootstrap, topic) == wanted, _DEADLINE_S / 5, lambda: str(own_configs(bootstrap, topic))
    )


def own_configs(bootstrap: str, topic: str) -> dict[str, str]:
    """Those that were set on the topic itself."""
    return read_own_configs(AdminClient(client(bootstrap)), [topic], _DEADLINE_S)[topic]

"""Which Kafka clients live in this process: what is not held any more must not go on connecting."""

import gc
from collections.abc import Collection

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

Client = Consumer | Producer | AdminClient


def living_clients(but: Collection[Client] = (), *, with_garbage: bool = False) -> list[Client]:
    """All but those of an earlier call; `with_garbage`, also those that only cycles hold."""
    if not with_garbage:
        gc.collect()
    known = {id(client) for client in but}
    return [found for found in gc.get_objects() if isinstance(found, Client) and id(found) not in known]

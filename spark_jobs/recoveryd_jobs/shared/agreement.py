"""Which partitions a topic has, and who leads them, by all brokers of its cluster.

What was just changed is known to some brokers a moment earlier than to others, and any broker answers a client. So
every broker is asked, and what they tell counts when all tell the same. A record can only lie in a partition that its
leader knows: none that was there before the question lies in a partition that is not counted. And who led a partition
before knows that it does so no longer, so it does not tell an old end for the present one.

The library asks whom it likes. A client that begins at the address of one broker asks this one more often than not, and
each answer says whose it is; so new clients are made until every broker has answered.

It stands here because plans of the daemon and proofs of its jobs both need it.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

T = TypeVar("T")

_ASK_S = 5.0
_AT_ONCE = 8
_TRIES = 16  # for each broker of a round
_PAUSE_S = 0.2
_PAUSE_MAX_S = 3.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What one broker says. `broker`: its id, -1 where the answer does not tell. `brokers`: the addresses of all that
    it knows, by id. `leaders`: of the topic's partitions, -1 = none; () where it does not know the topic.
    """

    broker: int
    brokers: Mapping[int, str]
    leaders: tuple[int, ...]

    @property
    def name(self) -> str:
        return "a broker" if self.broker < 0 else f"broker {self.broker}"


Ask = Callable[[str], Sight | None]
"""Ask through a new client that begins at this address, "" = where the cluster's properties say. None = no answer."""


class NotAgreed(Exception):  # noqa: N818  (says what happened; the caller decides what it means)
    """Brokers tell different things, or one does not answer."""


def agree(
    describe: Callable[[], T], width_of: Callable[[T], int | None], ask: Ask, deadline_s: float, *, silent: bool = False
) -> T:
    """What `describe` returns, once every broker tells as many partitions as it does, and the same leaders as the
    others. None by `width_of` is no topic, and nothing to agree about.

    `silent`: a broker that does not answer counts as one that agrees. Raises NotAgreed after `deadline_s` (monotonic),
    and what `describe` raises.
    """
    pause_s = _PAUSE_S
    while True:
        described = describe()
        width = width_of(described)
        if width is None:
            return described
        doubt = _doubt(width, *_look_around(ask), silent=silent)
        if not doubt:
            return described
        if time.monotonic() >= deadline_s:
            raise NotAgreed(doubt)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _look_around(ask: Ask) -> tuple[list[Sight], dict[int, str]]:
    """The newest answer of each broker, and the addresses of those that gave none."""
    first = ask("")
    if first is None:
        return [], {}
    sights, without_answer = {first.broker: first}, set[int]()
    for _ in range(_TRIES):
        wanted = {b: at for b, at in _unheard(sights).items() if b not in without_answer}
        if not wanted:
            break
        with ThreadPoolExecutor(min(len(wanted), _AT_ONCE), thread_name_prefix="brokers") as pool:
            for broker, sight in zip(wanted, pool.map(ask, wanted.values()), strict=True):
                if sight is None:
                    without_answer.add(broker)
                else:
                    sights[sight.broker] = sight
    return list(sights.values()), _unheard(sights)


def _unheard(sights: Mapping[int, Sight]) -> dict[int, str]:
    known: dict[int, str] = {}
    for sight in sights.values():
        known |= sight.brokers
    return {broker: address for broker, address in sorted(known.items()) if broker not in sights}


def _doubt(width: int, sights: list[Sight], unheard: Mapping[int, str], *, silent: bool) -> str:
    """Why they do not agree yet, or ""."""
    for sight in sights:
        if len(sight.leaders) != width:
            return f"{sight.name} tells {len(sight.leaders)} partitions, another one {width}"
    for sight in sights[1:]:
        for partition, (one, other) in enumerate(zip(sights[0].leaders, sight.leaders, strict=True)):
            if one != other:
                return f"{sight.name} tells that {other} leads partition {partition}, {sights[0].name} tells {one}"
    if silent:
        return ""
    for broker, address in unheard.items():
        return f"broker {broker} at {address} does not tell which partitions there are"
    return "" if sights else "no broker tells which partitions there are"


def sight_of(admin: AdminClient, topic: str) -> Sight | None:
    """What the broker says that the client asks; None when none answers."""
    try:
        found = admin.list_topics(topic, timeout=_ASK_S)
    except KafkaException:
        return None
    brokers = {broker: _address(str(node.host), node.port) for broker, node in found.brokers.items()}
    partitions = found.topics[topic].partitions
    return Sight(_who(found, brokers), brokers, tuple(partitions[p].leader for p in sorted(partitions)))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _who(found: Any, brokers: Mapping[int, str]) -> int:
    """The library learns the id behind an address with the first answer from there, and then it may name only the
    address: "sasl_ssl://kafka1:9092/bootstrap".
    """
    if found.orig_broker_id >= 0:
        return int(found.orig_broker_id)
    address = str(found.orig_broker_name).rpartition("/")[0].rpartition("//")[2]
    return next((broker for broker, at in brokers.items() if at == address), -1)

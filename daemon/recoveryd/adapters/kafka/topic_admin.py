"""Describing, creating, changing and deleting topics on one cluster. Blocking, with deadlines.

A topic that does not exist is a value (None), never an error.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from recoveryd.adapters.kafka.client import Properties, is_no_such_topic, make_admin, problem
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd_jobs.shared.agreement import NotAgreed, agree, sight_of

T = TypeVar("T")

SETTLE_S = 60.0  # a broker that makes a thousand partitions, or starts, takes long
_POLL_S = 0.05
_FENCED_POLL_S = 0.5  # brokers tell the controller that they live about so often
_AGREE_S = 30.0
_METADATA_S = 10.0  # a starved broker takes its time, and one that is gone says so at once


@dataclass(frozen=True, slots=True)
class TopicShape:
    """`leaders` maps every partition to the broker id of its leader (-1 = none now)."""

    topic: str
    topic_id: str
    leaders: Mapping[int, int]
    replication_factor: int

    @property
    def partitions(self) -> int:
        return len(self.leaders)

    @property
    def keys(self) -> list[tuple[str, int]]:
        return [(self.topic, partition) for partition in sorted(self.leaders)]


def describe(
    admin: AdminClient, topics: Iterable[str], timeout_s: float, rights: Iterable[str] = ()
) -> dict[str, TopicShape | None]:
    """Shapes by name, None = no such topic. Raises `ClusterProblem`, also when the cluster says that one of `rights`
    ("Read", "Write") is not granted.
    """
    names, needed = list(dict.fromkeys(topics)), tuple(rights)
    if not names:
        return {}
    admin.poll(0)  # lets waiting log lines out
    return _of_controller(admin, timeout_s, lambda: _describe(admin, names, timeout_s, needed))


def describe_whole(
    admin: AdminClient, properties: Properties, topic: str, timeout_s: float, rights: Iterable[str] = ()
) -> TopicShape | None:
    """As `describe`, once all brokers agree about the partitions and who leads them: one of them may not know yet what
    was just changed. A broker that does not answer is not waited for. Raises `ClusterProblem`.
    """

    def beginning_at(address: str) -> AdminClient:
        first = {"bootstrap.servers": address} if address else {}
        return make_admin({**properties, **first})

    try:
        return agree(
            lambda: describe(admin, [topic], timeout_s, rights)[topic],
            lambda shape: 0 if shape is None else shape.partitions,  # who has not heard of it yet tells that, too
            lambda address: sight_of(beginning_at(address), topic),
            time.monotonic() + _AGREE_S,
            silent=True,
        )
    except NotAgreed as doubt:
        raise ClusterProblem(f"The brokers do not agree about the partitions of {topic}: {doubt}") from None


def describe_patiently(
    properties: Properties, topics: Iterable[str], soon_s: float, busy_s: float
) -> dict[str, TopicShape | None]:
    """As `describe`, with a client of its own. Where nothing listens this is told after `soon_s` each time it asks; a
    broker that took the connection and is only late is asked again, for up to `busy_s`.
    """
    names, heard = list(topics), list[int | None]()
    admin = make_admin({**properties, "error_cb": lambda error: heard.append(error.code())})
    try:
        return describe(admin, names, soon_s)
    except ClusterProblem as silence:
        admin.poll(0)  # tells what the client heard meanwhile
        if silence.code is not Code.CLUSTER_UNREACHABLE or KafkaError._ALL_BROKERS_DOWN in heard:  # noqa: SLF001
            raise
    return describe(admin, names, busy_s)


def _describe(
    admin: AdminClient, names: list[str], timeout_s: float, rights: tuple[str, ...]
) -> dict[str, TopicShape | None]:
    asked = admin.describe_topics(
        TopicCollection(names), request_timeout=timeout_s, include_authorized_operations=bool(rights)
    )
    return {name: _shape(answer, name, timeout_s, rights) for name, answer in asked.items()}


def read_configs(admin: AdminClient, topic: str, timeout_s: float) -> dict[str, str]:
    """The effective configs of an existing topic."""
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)], request_timeout=timeout_s)
    try:
        entries = _wait(next(iter(asked.values())), f"read the configs of {topic}", timeout_s)
    except KafkaException as error:
        raise problem(error, f"read the configs of {topic}", "DescribeConfigs", topic) from error
    return {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}


def read_own_configs(admin: AdminClient, topics: Iterable[str], timeout_s: float) -> dict[str, dict[str, str]]:
    """By topic, the configs that were set on the topic itself: what it has to be given when it is made again. Raises
    `ClusterProblem`.
    """
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    found = {}
    for resource, answer in admin.describe_configs(resources, request_timeout=timeout_s).items() if resources else ():
        topic = resource.name
        try:
            entries = _wait(answer, f"read the configs of {topic}", timeout_s)
        except KafkaException as error:
            raise problem(error, f"read the configs of {topic}", "DescribeConfigs", topic) from error
        found[topic] = {
            name: str(entry.value)
            for name, entry in entries.items()
            if entry.value is not None and ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
    return found


def change_configs(admin: AdminClient, changes: Mapping[str, Mapping[str, str | None]], timeout_s: float) -> None:
    """Set configs of topics, by topic and name; None takes away what was set on the topic itself. Others stay. Raises
    `ClusterProblem`.
    """
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(
                    name,
                    value or "",
                    incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
                )
                for name, value in configs.items()
            ],
        )
        for topic, configs in changes.items()
    ]
    for resource, answer in admin.incremental_alter_configs(resources, request_timeout=timeout_s).items():
        try:
            _wait(answer, f"change configs of {resource.name}", timeout_s)
        except KafkaException as error:
            raise problem(error, f"change configs of {resource.name}", "AlterConfigs", resource.name) from error


def delete(admin: AdminClient, topic: str, timeout_s: float) -> None:
    """One that is not there is no error. Raises `ClusterProblem`."""

    def ask() -> None:
        answer = admin.delete_topics([topic], operation_timeout=timeout_s, request_timeout=timeout_s + 1.0)[topic]
        try:
            _wait(answer, f"delete {topic}", timeout_s + 2.0)
        except KafkaException as error:
            if is_no_such_topic(error):
                return
            _check_asked(error.args[0])
            raise problem(error, f"delete {topic}", "Delete", topic) from error

    _of_controller(admin, timeout_s, ask)


def create(
    admin: AdminClient, topic: str, partitions: int, replication: int, configs: Mapping[str, str], timeout_s: float
) -> bool:
    """False when it exists already, or is there after the controller ran out of time: nobody knows then who made it.
    Raises `ClusterProblem`: TARGET_CREATE_FAILED for what the broker refuses.

    While no broker may take a replica, because all of them were silent to the controller for a moment, it is asked
    again, for `timeout_s`.
    """
    wanted = NewTopic(topic, partitions, replication, config=dict(configs))
    give_up_s = time.monotonic() + timeout_s
    while True:
        try:
            return _of_controller(admin, timeout_s, lambda: _create(admin, wanted, timeout_s))
        except _FencedError as refused:
            if time.monotonic() >= give_up_s:
                raise ClusterProblem(f"Could not create {topic}: {refused}") from refused
            time.sleep(_FENCED_POLL_S)


def _create(admin: AdminClient, wanted: NewTopic, timeout_s: float) -> bool:
    topic = wanted.topic
    answer = admin.create_topics([wanted], operation_timeout=timeout_s, request_timeout=timeout_s + 1.0)[topic]
    try:
        _wait(answer, f"create {topic}", timeout_s + 2.0)
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        _check_asked(cause)
        if cause.code() == KafkaError.INVALID_REPLICATION_FACTOR and "All brokers are currently fenced" in cause.str():
            raise _FencedError(cause.str()) from error
        reason = problem(error, f"create {topic}", "Create", topic)
        if cause.code() == KafkaError.REQUEST_TIMED_OUT and _is_there(admin, topic, timeout_s):
            return False
        if reason.retriable or reason.code is Code.NOT_AUTHORISED:
            raise reason from error
        raise ClusterProblem(reason.message, code=Code.TARGET_CREATE_FAILED, retriable=False) from error
    return True


def _is_there(admin: AdminClient, topic: str, timeout_s: float) -> bool:
    """Whether it is seen; not of one of which nobody tells."""
    try:
        return describe(admin, [topic], timeout_s)[topic] is not None
    except ClusterProblem:
        return False


def check_create(admin: AdminClient, topics: Iterable[str], timeout_s: float) -> None:
    """Whether these may be made, also of those that exist. Nothing is made. Raises `ClusterProblem` for one that may
    not.
    """
    wanted = [NewTopic(topic, 1, -1) for topic in topics]
    asked = admin.create_topics(wanted, validate_only=True, request_timeout=timeout_s) if wanted else {}
    for topic, answer in asked.items():
        try:
            _wait(answer, f"ask whether {topic} may be made", timeout_s)
        except KafkaException as error:
            reason = problem(error, f"create {topic}", "Create", topic)
            if reason.code is Code.NOT_AUTHORISED:
                raise reason from error


def await_topic(admin: AdminClient, topic: str, timeout_s: float, settle_s: float = SETTLE_S) -> TopicShape:
    """The shape of a topic that was just made, once every partition has a leader. Raises `ClusterProblem` when that
    does not happen.
    """
    give_up_s = time.monotonic() + settle_s
    while True:
        shape = describe(admin, [topic], timeout_s)[topic]
        if shape is not None and min(shape.leaders.values()) >= 0:
            return shape
        if time.monotonic() >= give_up_s:
            raise ClusterProblem(f"{topic} was created, but has no leaders after {settle_s:.0f} s")
        time.sleep(_POLL_S)


def _shape(answer: Any, name: str, timeout_s: float, rights: tuple[str, ...]) -> TopicShape | None:
    try:
        found = _wait(answer, f"describe {name}", timeout_s)
    except KafkaException as error:
        if is_no_such_topic(error):
            return None
        _check_asked(error.args[0])
        raise problem(error, f"describe {name}", " and ".join(rights) or "Describe", name) from error
    granted = {operation.name.capitalize() for operation in found.authorized_operations or ()}
    if granted and (lacking := [right for right in rights if right not in granted]):
        refusal = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        raise problem(refusal, f"use {name}", " and ".join(lacking), name)
    return TopicShape(
        topic=name,
        topic_id=str(found.topic_id),
        leaders={p.id: p.leader.id if p.leader is not None else -1 for p in found.partitions},
        replication_factor=min((len(p.replicas) for p in found.partitions), default=1),
    )


class _NobodyAskedError(Exception):
    """The client knows no controller: the cluster named none when it last looked, and its next look may be minutes
    away. So nothing was asked.
    """


class _FencedError(Exception):
    """Every broker is fenced: none has told the controller lately that it lives. Kafka has no code of its own
    for it.
    """


def _check_asked(error: KafkaError) -> None:
    if error.code() == KafkaError._TIMED_OUT and "controller" in error.str():  # noqa: SLF001  (the library's own code)
        raise _NobodyAskedError(error.str())


def _of_controller(admin: AdminClient, timeout_s: float, ask: Callable[[], T]) -> T:
    """What `ask` says; when it found nobody to ask, metadata are fetched, which name the controller, and it is done
    once more.

    Where metadata are not to be had either, nobody answers at all, and asking again would only wait again.
    """
    try:
        return ask()
    except _NobodyAskedError as silence:
        try:
            admin.list_topics(timeout=min(timeout_s, _METADATA_S))
            return ask()
        except (KafkaException, _NobodyAskedError):
            raise ClusterProblem(f"Could not ask the controller: {silence}") from silence


def _wait(answer: Any, doing: str, timeout_s: float) -> Any:
    try:
        return answer.result(timeout_s + 1.0)
    except FutureTimeoutError as error:
        raise ClusterProblem(f"Could not {doing}: no answer within {timeout_s:.0f} s") from error

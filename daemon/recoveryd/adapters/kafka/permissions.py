"""What a cluster says its user may do, compared with what is needed: so that a missing ACL is named before something
fails for it.

Asked with the describing calls that answer with authorised operations; only the right to create a topic is asked by a
creation that is only validated. Nothing is changed. Transactional ids cannot be described: `own_topics.write_probe`
tries those.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from recoveryd.adapters.kafka.client import Properties, ask_again, make_admin, problem
from recoveryd.errors import ClusterProblem
from recoveryd.wire.acls import Acl, Resource

TIMEOUT_S = 10.0
_RETRY_S = 0.5
_IMPLIED = {
    "Describe": {"Read", "Write", "Delete", "Alter", "AlterConfigs"},
    "DescribeConfigs": {"AlterConfigs"},
}
_REFUSED = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
})  # fmt: skip


def lacking(properties: Properties, needs: Sequence[Acl], group: str, timeout_s: float = TIMEOUT_S) -> list[str]:
    """What is not granted, each as `Write on Topic NAME`; `group` stands for the prefix of groups. `timeout_s`: of each
    question. Raises `ClusterProblem` when nobody answers.

    A topic that does not exist yet, and a group that nobody joined yet, are judged as far as the cluster tells.
    """
    asked = _Asked(make_admin(properties), timeout_s)
    wanted: dict[tuple[Resource, str], dict[str, None]] = {}
    for acl in needs:
        name = group if acl.resource is Resource.GROUP else acl.name
        wanted.setdefault((acl.resource, name), {}).update(dict.fromkeys(acl.operations))
    found = []
    for (resource, name), operations in wanted.items():
        if resource is Resource.TRANSACTIONAL_ID:
            continue
        granted = _granted(asked, resource, name)
        found += [
            f"{operation} on {resource.value} {name}"
            for operation in operations
            if not _is_granted(asked, granted, resource, name, operation)
        ]
    return found


class _Asked(NamedTuple):
    """Who answers, and how long each question may take."""

    admin: AdminClient
    timeout_s: float


def said_of(acl: Acl) -> list[str]:
    """Each operation as `lacking` names it."""
    return [f"{operation} on {acl.resource.value} {acl.name}" for operation in acl.operations]


def _is_granted(to: _Asked, granted: set[str] | None, resource: Resource, name: str, operation: str) -> bool:
    """`granted` None = the cluster could not say, because there is no such thing yet."""
    if operation == "Create" and resource is Resource.TOPIC:
        return bool(granted) or _may_create(to, name)  # what is there need not be made
    if granted is None:
        return True
    if not granted and operation == "DescribeConfigs" and resource is Resource.TOPIC:
        return _may_read_configs(
            to, name
        )  # a topic that may not be described does not tell, but this right stands alone
    return operation in granted or bool(_IMPLIED.get(operation, set()) & granted)


def _granted(to: _Asked, resource: Resource, name: str) -> set[str] | None:
    """Asked again for some seconds while a coordinator loads or a topic has no leader yet."""
    return ask_again(lambda: _granted_now(to, resource, name), time.monotonic() + to.timeout_s, _RETRY_S)


def _granted_now(to: _Asked, resource: Resource, name: str) -> set[str] | None:
    try:
        if resource is Resource.TOPIC:
            asked: Any = to.admin.describe_topics(
                TopicCollection([name]), include_authorized_operations=True, request_timeout=to.timeout_s
            )[name]
        elif resource is Resource.GROUP:
            asked = to.admin.describe_consumer_groups(
                [name], include_authorized_operations=True, request_timeout=to.timeout_s
            )[name]
        else:
            asked = to.admin.describe_cluster(include_authorized_operations=True, request_timeout=to.timeout_s)
        operations = asked.result(to.timeout_s + 1.0).authorized_operations
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() in _REFUSED:
            return set()
        reason = problem(error, f"ask what may be done with {name}")
        if reason.retriable and cause.code() not in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND}:
            raise reason from error
        return None
    except FutureTimeoutError as error:
        raise ClusterProblem(
            f"Could not ask what may be done with {name}: no answer in {to.timeout_s:.0f} s"
        ) from error
    return None if operations is None else {_in_kafkas_words(o.name) for o in operations}


def _may_create(to: _Asked, topic: str) -> bool:
    asked = to.admin.create_topics([NewTopic(topic, 1, -1)], validate_only=True, request_timeout=to.timeout_s)[topic]
    return _is_allowed(to, asked, f"ask whether {topic} may be created")


def _may_read_configs(to: _Asked, topic: str) -> bool:
    [asked] = to.admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=to.timeout_s
    ).values()
    return _is_allowed(to, asked, f"ask for the configs of {topic}")


def _is_allowed(to: _Asked, asked: Future[Any], doing: str) -> bool:
    """An answer, or a refusal that has nothing to do with rights: what was asked would have been done."""
    try:
        asked.result(to.timeout_s + 1.0)
    except KafkaException as error:
        return error.args[0].code() not in _REFUSED
    except FutureTimeoutError as error:
        raise ClusterProblem(f"Could not {doing} in {to.timeout_s:.0f} s") from error
    return True


def _in_kafkas_words(name: str) -> str:
    """`DESCRIBE_CONFIGS` as `DescribeConfigs`."""
    return "".join(part.capitalize() for part in name.split("_"))

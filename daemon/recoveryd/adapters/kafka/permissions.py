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
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from recoveryd.adapters.kafka.client import Properties, make_admin, problem
from recoveryd.errors import ClusterProblem
from recoveryd.wire.acls import Acl, Resource

_TIMEOUT_S = 10.0
_RETRY_S = 0.5
_IMPLIED = {
    "Describe": {"Read", "Write", "Delete", "Alter", "AlterConfigs"},
    "DescribeConfigs": {"AlterConfigs"},
}
_REFUSED = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
})  # fmt: skip


def lacking(properties: Properties, needs: Sequence[Acl], group: str) -> list[str]:
    """What is not granted, each as `Write on Topic NAME`; `group` stands for the prefix of groups. Raises
    `ClusterProblem` when nobody answers.

    A topic that does not exist yet, and a group that nobody joined yet, are judged as far as the cluster tells.
    """
    admin = make_admin(properties)  # kept until the answers are here
    wanted: dict[tuple[Resource, str], dict[str, None]] = {}
    for acl in needs:
        name = group if acl.resource is Resource.GROUP else acl.name
        wanted.setdefault((acl.resource, name), {}).update(dict.fromkeys(acl.operations))
    found = []
    for (resource, name), operations in wanted.items():
        if resource is Resource.TRANSACTIONAL_ID:
            continue
        granted = _granted(admin, resource, name)
        found += [
            f"{operation} on {resource.value} {name}"
            for operation in operations
            if not _is_granted(admin, granted, resource, name, operation)
        ]
    return found


def said_of(acl: Acl) -> list[str]:
    """Each operation as `lacking` names it."""
    return [f"{operation} on {acl.resource.value} {acl.name}" for operation in acl.operations]


def _is_granted(admin: AdminClient, granted: set[str] | None, resource: Resource, name: str, operation: str) -> bool:
    """`granted` None = the cluster could not say, because there is no such thing yet."""
    if operation == "Create" and resource is Resource.TOPIC:
        return bool(granted) or _may_create(admin, name)  # what is there need not be made
    if granted is None:
        return True
    if not granted and operation == "DescribeConfigs" and resource is Resource.TOPIC:
        return _may_read_configs(
            admin, name
        )  # a topic that may not be described does not tell, but this right stands alone
    return operation in granted or bool(_IMPLIED.get(operation, set()) & granted)


def _granted(admin: AdminClient, resource: Resource, name: str) -> set[str] | None:
    """Asked again for some seconds while a coordinator loads or a topic has no leader yet."""
    give_up_s = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return _granted_now(admin, resource, name)
        except ClusterProblem as problem_seen:
            if not problem_seen.retriable or time.monotonic() >= give_up_s:
                raise
            time.sleep(_RETRY_S)


def _granted_now(admin: AdminClient, resource: Resource, name: str) -> set[str] | None:
    try:
        if resource is Resource.TOPIC:
            asked: Any = admin.describe_topics(
                TopicCollection([name]), include_authorized_operations=True, request_timeout=_TIMEOUT_S
            )[name]
        elif resource is Resource.GROUP:
            asked = admin.describe_consumer_groups(
                [name], include_authorized_operations=True, request_timeout=_TIMEOUT_S
            )[name]
        else:
            asked = admin.describe_cluster(include_authorized_operations=True, request_timeout=_TIMEOUT_S)
        operations = asked.result(_TIMEOUT_S + 1.0).authorized_operations
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() in _REFUSED:
            return set()
        reason = problem(error, f"ask what may be done with {name}")
        if reason.retriable and cause.code() not in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND}:
            raise reason from error
        return None
    except FutureTimeoutError as error:
        raise ClusterProblem(f"Could not ask what may be done with {name}: no answer in {_TIMEOUT_S:.0f} s") from error
    return None if operations is None else {_in_kafkas_words(o.name) for o in operations}


def _may_create(admin: AdminClient, topic: str) -> bool:
    asked = admin.create_topics([NewTopic(topic, 1, -1)], validate_only=True, request_timeout=_TIMEOUT_S)[topic]
    return _is_allowed(asked, f"ask whether {topic} may be created")


def _may_read_configs(admin: AdminClient, topic: str) -> bool:
    [asked] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)], request_timeout=_TIMEOUT_S).values()
    return _is_allowed(asked, f"ask for the configs of {topic}")


def _is_allowed(asked: Future[Any], doing: str) -> bool:
    """An answer, or a refusal that has nothing to do with rights: what was asked would have been done."""
    try:
        asked.result(_TIMEOUT_S + 1.0)
    except KafkaException as error:
        return error.args[0].code() not in _REFUSED
    except FutureTimeoutError as error:
        raise ClusterProblem(f"Could not {doing} in {_TIMEOUT_S:.0f} s") from error
    return True


def _in_kafkas_words(name: str) -> str:
    """`DESCRIBE_CONFIGS` as `DescribeConfigs`."""
    return "".join(part.capitalize() for part in name.split("_"))

"""Users and ACLs of a secured sandbox cluster, changed through Kafka's own admin calls. Every call has a deadline."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from recoveryd_sandbox.errors import SandboxError

_TIMEOUT_S = 60.0
_ITERATIONS = 4096  # the lowest that Kafka accepts: every new connection computes them


@dataclass(frozen=True)
class Grant:
    """One allowed operation, in Kafka's words: `Grant("topic", "recovery.", "prefixed", "read")`."""

    resource: str  # topic, group, transactional_id, broker (the cluster)
    name: str
    pattern: str  # literal or prefixed
    operation: str


EVERYTHING = tuple(
    Grant(resource, "kafka-cluster" if resource == "broker" else "*", "literal", "all")
    for resource in ("topic", "group", "transactional_id", "broker")
)


class Users:
    """`client`: librdkafka's properties of a user who may change users and ACLs."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._admin = AdminClient({**client, "log_level": 0})

    def set_password(self, user: str, password: str) -> None:
        """Creates the user when there is none of this name."""
        mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
        wanted = UserScramCredentialUpsertion(user, mechanism, password.encode())
        _all_done(self._admin.alter_user_scram_credentials([wanted], request_timeout=_TIMEOUT_S))

    def grant(self, user: str, grants: Iterable[Grant]) -> None:
        wanted = [_binding(user, grant) for grant in dict.fromkeys(grants)]
        if wanted:
            _all_done(self._admin.create_acls(wanted, request_timeout=_TIMEOUT_S))

    def take_away(self, user: str, grants: Iterable[Grant]) -> None:
        """Remove exactly these ACLs; a prefixed one does not include those under its prefix."""
        _all_done(
            self._admin.delete_acls([_filter(user, g) for g in dict.fromkeys(grants)], request_timeout=_TIMEOUT_S)
        )


def _binding(user: str, grant: Grant) -> AclBinding:
    return AclBinding(*_place(grant), f"User:{user}", "*", AclOperation[grant.operation.upper()],
        AclPermissionType.ALLOW)  # fmt: skip


def _filter(user: str, grant: Grant) -> AclBindingFilter:
    return AclBindingFilter(*_place(grant), f"User:{user}", "*", AclOperation[grant.operation.upper()],
        AclPermissionType.ALLOW)  # fmt: skip


def _place(grant: Grant) -> tuple[Any, str, Any]:
    return ResourceType[grant.resource.upper()], grant.name, ResourcePatternType[grant.pattern.upper()]


def _all_done(futures: Mapping[Any, Any]) -> None:
    try:
        for future in futures.values():
            future.result(_TIMEOUT_S)
    except KafkaException as error:
        raise SandboxError(f"Kafka did not change its users: {error.args[0].str()}.") from error

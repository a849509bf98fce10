"""ACLs of the product's user: the whole table, users that lack one entry, and what the cluster says they lack."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from recoveryd.adapters.kafka.permissions import lacking
from recoveryd.errors import ClusterProblem
from recoveryd.wire.acls import Acl, Resource, Role, own_acls, replay_acls
from recoveryd.wire.topics import TopicNames
from recoveryd_sandbox.access import RECOVERYD
from recoveryd_sandbox.cluster import Cluster
from recoveryd_sandbox.users import Grant
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

PASSWORD = "of-a-test"
_KINDS = {"Topic": "topic", "Group": "group", "TransactionalId": "transactional_id", "Cluster": "broker"}


def own_needs(stack: Stack, *roles: Role) -> list[Acl]:
    """The ACLs that the table says are always needed, with the stack's prefix."""
    return [acl for acl in own_acls(TopicNames(stack.prefix)) if set(roles) & set(acl.roles) and not acl.when]


def needed(stack: Stack) -> list[Acl]:
    """The ACLs of a user for daemon, jobs and `topics apply`, who may copy between topics that begin with the stack's
    mark, and nothing else.
    """
    mark = f"{stack.mark}-"
    return [*own_needs(stack, Role.DAEMON, Role.JOBS, Role.SETUP), *replay_acls(mark, mark, create=True, prefixed=True)]


def grants_of(acls: Iterable[Acl]) -> list[Grant]:
    return [
        Grant(_KINDS[acl.resource.value], acl.name, acl.pattern, _lower(operation))
        for acl in acls
        for operation in acl.operations
    ]


def told(grant: Grant) -> str:
    """An ACL as errors and `doctor` name it: `DescribeConfigs on Topic NAME`."""
    operation = "".join(part.capitalize() for part in grant.operation.split("_"))
    kind = next(kafkas for kafkas, ours in _KINDS.items() if ours == grant.resource)
    return f"{operation} on {kind} {grant.name}"


def make_user(cluster: Cluster, user: str, grants: Iterable[Grant]) -> dict[str, str]:
    """Librdkafka's properties of a new user with these ACLs."""
    cluster.users.set_password(user, PASSWORD)
    cluster.users.grant(user, grants)
    return {**cluster.client(RECOVERYD), "sasl.username": user, "sasl.password": PASSWORD}


@contextmanager
def without(cluster: Cluster, user: str, grant: Grant) -> Iterator[None]:
    cluster.users.take_away(user, [grant])
    try:
        yield
    finally:
        cluster.users.grant(user, [grant])


def missing(stack: Stack, client: Mapping[str, str], needs: Iterable[Acl]) -> list[str]:
    """Which ACLs are missing, asked as `doctor` does. Of prefixed names, only groups can be asked about."""
    asked = [acl for acl in needs if not acl.prefixed or acl.resource is Resource.GROUP]
    return lacking(client, asked, f"recoveryd.{stack.prefix.rstrip('.')}")


def await_missing(
    stack: Stack, client: Mapping[str, str], needs: Iterable[Acl], wanted: Sequence[str], within_s: float
) -> None:
    """Until exactly these are missing. Users and ACLs come to each broker by themselves: one that does not know a new
    user yet gives no answer.
    """
    asked, seen = list(needs), list[str]()

    def is_it() -> bool:
        try:
            seen[:] = missing(stack, client, asked)
        except ClusterProblem as problem:
            if not problem.retriable:
                raise
            seen[:] = [problem.message]
        return seen == list(wanted)

    wait_for(is_it, within_s, lambda: f"{wanted} were to be missing, and it says {seen}")


def _lower(operation: str) -> str:
    """`DescribeConfigs` as `describe_configs`."""
    return "".join("_" + c.lower() if c.isupper() else c for c in operation).strip("_")

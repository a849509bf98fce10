"""The ACLs that recoveryd's users need: one table, from which docs/acls.md, `recoveryctl doctor` and the tests on a secured cluster come.

Kafka's own words for resources, patterns and operations. Read, Write, Delete and Alter imply Describe, and AlterConfigs implies
DescribeConfigs, so those are not written again. `python -m daemon.wire.acls --write` makes docs/acls.md.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from daemon.generated import write_or_check
from daemon.wire.topics import TopicNames

FILE: Final = Path("docs/acls.md")
CLIENT_PREFIX: Final = "recoveryd"  # of every consumer group and transactional id


class Role(StrEnum):
    """Who needs it. Daemon and jobs share the properties of `clusters:`, so usually one user has both."""

    DAEMON = "daemon"
    JOBS = "jobs"
    READER = "CLI, read-only"
    OPERATOR = "CLI, operator"
    SETUP = "topics apply"


class Resource(StrEnum):
    TOPIC = "Topic"
    GROUP = "Group"
    TRANSACTIONAL_ID = "TransactionalId"
    CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class Acl:
    """`cluster`: main, source, target or watched. `when`: the config or command that makes it needed, "" = always."""

    roles: tuple[Role, ...]
    cluster: str
    resource: Resource
    name: str
    operations: tuple[str, ...]
    why: str
    prefixed: bool = False
    when: str = ""

    @property
    def pattern(self) -> str:
        return "prefixed" if self.prefixed else "literal"


CLUSTER_NAME: Final = "kafka-cluster"
_D, _J, _R, _O, _S = Role.DAEMON, Role.JOBS, Role.READER, Role.OPERATOR, Role.SETUP


def own_acls(names: TopicNames) -> tuple[Acl, ...]:
    """What recoveryd's own topics, groups and transactions need, wherever records come from and go to."""
    topic, main = Resource.TOPIC, "main"
    return (
        Acl((_D,), main, topic, names.control, ("Read", "DescribeConfigs"), "takes in commands and signals"),
        Acl((_D,), main, topic, names.status, ("Read", "Write", "DescribeConfigs"), "the journal: state of every recovery"),
        Acl((_D,), main, topic, names.events, ("Write", "DescribeConfigs"), "answers, transitions, decisions"),
        Acl((_D,), main, topic, names.directives, ("Read", "Write", "DescribeConfigs"), "tells lanes what to do now"),
        Acl((_D,), main, topic, names.progress, ("Read", "DescribeConfigs"), "heartbeats of lanes and drivers"),
        Acl((_D,), main, topic, names.dlq, ("Write", "DescribeConfigs"), "control records that could not be read"),
        Acl((_D,), main, topic, names.canary, ("Write", "DescribeConfigs"), "measures produce latency; looked at when the daemon starts"),
        Acl((_D, _J), "target", topic, names.receipts, ("Read", "Write", "DescribeConfigs"), "the exactly-once ledger"),
        Acl((_J,), main, topic, names.directives, ("Read",), "what this lane must do now"),
        Acl((_J,), main, topic, names.progress, ("Write",), "heartbeats"),
        Acl((_D,), main, Resource.GROUP, CLIENT_PREFIX, ("Read",), "the group of the control topic", prefixed=True),
        Acl((_D,), main, Resource.TRANSACTIONAL_ID, CLIENT_PREFIX, ("Write",), "the journal's transactions", prefixed=True),
        Acl((_D, _J), "target", Resource.TRANSACTIONAL_ID, CLIENT_PREFIX, ("Write",), "chunks of lanes, and fencing them", prefixed=True),
        Acl((_D,), main, Resource.CLUSTER, CLUSTER_NAME, ("DescribeConfigs", "AlterConfigs"), "client quotas of recoveries", when="quotas.enabled"),
        Acl((_R, _O), main, topic, names.status, ("Read",), "what recoveries there are and how they stand"),
        Acl((_R, _O), main, topic, names.events, ("Read",), "answers and the history of a recovery"),
        Acl((_O,), main, topic, names.control, ("Write",), "commands"),
        Acl((_S,), "main and target", topic, names.prefix, ("Create", "Describe", "DescribeConfigs"), "makes the own topics, and compares them", prefixed=True),
    )  # fmt: skip


def replay_acls(source: str, target: str, *, create: bool, prefixed: bool = False) -> tuple[Acl, ...]:
    """What one replay needs beside `own_acls`, on its source and on its target."""
    topic = Resource.TOPIC
    needed: tuple[Acl, ...] = (
        Acl((_D, _J), "source", topic, source, ("Read", "DescribeConfigs"), "plans, copies and reads again to verify", prefixed),
        Acl((_D, _J), "target", topic, target, ("Read", "Write", "DescribeConfigs"), "writes, and reads back to verify", prefixed),
    )  # fmt: skip
    if create:
        needed += (Acl((_D,), "target", topic, target, ("Create",), "makes the target", prefixed, "target.create"),)
    return needed


def watched_acls(topic: str, group: str) -> tuple[Acl, ...]:
    """What looking at live traffic needs, for `monitor:` and `watch-group`."""
    return (
        Acl((_D,), "watched", Resource.TOPIC, topic, ("Describe",), "ends of topics under `monitor:`", when="monitor.topics"),
        Acl((_D,), "watched", Resource.GROUP, group, ("Describe",), "lag of groups under `monitor:`", when="monitor.groups"),
    )  # fmt: skip


def every_need(names: TopicNames) -> tuple[Acl, ...]:
    """All of the table, with words in the place of names that are chosen by others."""
    return (
        *own_acls(names),
        *replay_acls("the source", "the target", create=True),
        *watched_acls("the topic", "the group"),
    )


def render() -> str:
    """docs/acls.md."""
    return "\n".join([_HEAD, *_rows(TopicNames()), _TAIL])


_HEAD: Final = """\
# ACLs

What the users of recoveryd must be allowed on clusters with an authorizer. `clusters.main` of the config is *main*; the clusters a recovery
reads from and writes to are *source* and *target*, which may be *main* too. Daemon and jobs use the same properties of `clusters:`, so usually one
user has the rows of both; people and their scripts need only the last ones. Nothing needs to be a super user.

Read and Write imply Describe, AlterConfigs implies DescribeConfigs. *prefixed* names are prefixes (`--resource-pattern-type prefixed`). With another
`topics.prefix` the names of the own topics change with it. `recoveryctl doctor` says what is missing, also for one replay
with `--source` and `--target`; a refusal (`RCV-2012`) names the missing ACL.

Made by `python -m daemon.wire.acls --write`; edit `daemon/wire/acls.py` instead.

| who | cluster | resource | name | operations | needed for |
| --- | --- | --- | --- | --- | --- |"""
_TAIL: Final = """
For one user that is daemon and jobs, with Kafka's own tool:

    kafka-acls --bootstrap-server $B --command-config admin.properties --add --allow-principal User:recoveryd \\
      --topic recovery. --resource-pattern-type prefixed --operation Read --operation Write --operation DescribeConfigs
    kafka-acls ... --group recoveryd --resource-pattern-type prefixed --operation Read
    kafka-acls ... --transactional-id recoveryd --resource-pattern-type prefixed --operation Write
    kafka-acls ... --topic flights --operation Read --operation DescribeConfigs
    kafka-acls ... --topic flights.v42 --operation Create --operation Read --operation Write --operation DescribeConfigs
"""


def _rows(names: TopicNames) -> Iterator[str]:
    for acl in every_need(names):
        who = ", ".join(role.value for role in acl.roles)
        name = f"`{acl.name}`{' (prefixed)' if acl.prefixed else ''}" if " " not in acl.name else acl.name
        why = f"{acl.why} (`{acl.when}`)" if acl.when else acl.why
        yield f"| {who} | {acl.cluster} | {acl.resource.value} | {name} | {', '.join(acl.operations)} | {why} |"


def main(arguments: list[str]) -> int:
    return write_or_check({FILE: render()}, arguments, "daemon.wire.acls")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

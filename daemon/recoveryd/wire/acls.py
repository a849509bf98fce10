"""The ACLs that recoveryd's users need: one table, used by docs/acls.md, `recoveryctl doctor` and the tests on a
secured cluster.

Resources, patterns and operations have Kafka's own names. Read, Write, Delete and Alter imply Describe, and
AlterConfigs implies DescribeConfigs, so those are not written again.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recoveryd.wire.topics import TopicNames

CLIENT_PREFIX: Final = "recoveryd"  # prefix of every consumer group and transactional id


class Role(StrEnum):
    """Which program needs an ACL. Daemon and jobs share the properties of `clusters:`, so usually one user has both
    roles.
    """

    DAEMON = "daemon"
    JOBS = "jobs"
    READER = "CLI, read-only"
    OPERATOR = "CLI, operator"
    SETUP = "topics apply"
    CONSUMER = "consumer of your own"
    APPLICATION = "application of a unit"


class Resource(StrEnum):
    TOPIC = "Topic"
    GROUP = "Group"
    TRANSACTIONAL_ID = "TransactionalId"
    CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class Acl:
    """`cluster`: main, each of the config, source, target, canary, watched or that of a unit. `when`: the config or
    command that makes it needed, "" = always.
    """

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
    """The ACLs for recoveryd's own topics, groups and transactions, whatever source and target are."""
    topic, main = Resource.TOPIC, "main"
    return (
        Acl((_D,), main, topic, names.control, ("Read", "Write", "DescribeConfigs"), "takes in commands and signals; sends the commands of schedules"),
        Acl((_D,), main, topic, names.status, ("Read", "Write", "DescribeConfigs"), "the journal: state of every recovery"),
        Acl((_D,), main, topic, names.events, ("Read", "Write", "DescribeConfigs"), "answers, transitions, decisions; what of them landed"),
        Acl((_D,), main, topic, names.directives, ("Read", "Write", "DescribeConfigs"), "tells lanes what to do now"),
        Acl((_D,), main, topic, names.progress, ("Read", "DescribeConfigs"), "heartbeats of lanes and drivers"),
        Acl((_D,), main, topic, names.dlq, ("Read", "Write", "DescribeConfigs"), "control records that could not be read; what of them landed"),
        Acl((_D,), main, topic, names.canary, ("Write", "DescribeConfigs"), "measures produce latency; looked at when the daemon starts"),
        Acl((_D,), "canary", topic, names.canary, ("Write", "DescribeConfigs"), "the same on other clusters", when="monitor.canary.clusters"),
        Acl((_D, _J), "target", topic, names.receipts, ("Read", "Write", "DescribeConfigs"), "the exactly-once ledger"),
        Acl((_J,), main, topic, names.directives, ("Read",), "what this lane must do now"),
        Acl((_J,), main, topic, names.progress, ("Write",), "heartbeats"),
        Acl((_D,), main, Resource.GROUP, CLIENT_PREFIX, ("Read",), "the group of the control topic", prefixed=True),
        Acl((_D,), main, Resource.TRANSACTIONAL_ID, CLIENT_PREFIX, ("Write",), "the journal's transactions", prefixed=True),
        Acl((_D, _J), "target", Resource.TRANSACTIONAL_ID, CLIENT_PREFIX, ("Write",), "chunks of lanes, and fencing them", prefixed=True),
        Acl((_D,), "each", Resource.CLUSTER, CLUSTER_NAME, ("DescribeConfigs", "AlterConfigs"), "client quotas of recoveries, and finding those that were left", when="quotas.enabled"),
        Acl((_R, _O), main, topic, names.status, ("Read",), "what recoveries there are and how they stand"),
        Acl((_R, _O), main, topic, names.events, ("Read",), "answers and the history of a recovery"),
        Acl((_O,), main, topic, names.control, ("Write",), "commands"),
        Acl((_S,), "main, target and canary", topic, names.prefix, ("Create", "Describe", "DescribeConfigs"), "makes the own topics, and compares them", prefixed=True),
    )  # fmt: skip


def replay_acls(source: str, target: str, *, create: bool, prefixed: bool = False) -> tuple[Acl, ...]:
    """The ACLs that one replay needs beside `own_acls`, on its source and its target."""
    topic = Resource.TOPIC
    needed: tuple[Acl, ...] = (
        Acl((_D, _J), "source", topic, source, ("Read", "DescribeConfigs"), "plans, copies and reads again to verify", prefixed),
        Acl((_D, _J), "target", topic, target, ("Read", "Write", "DescribeConfigs"), "writes, and reads back to verify", prefixed),
    )  # fmt: skip
    if create:
        needed += (Acl((_D,), "target", topic, target, ("Create",), "makes the target", prefixed, "target.create"),)
    return needed


def watched_acls(topic: str, group: str) -> tuple[Acl, ...]:
    """The ACLs for watching live traffic, for `monitor:` and `watch-group`."""
    return (
        Acl((_D,), "watched", Resource.TOPIC, topic, ("Describe",), "ends of topics under `monitor:`", when="monitor.topics"),
        Acl((_D,), "watched", Resource.GROUP, group, ("Describe",), "lag of groups under `monitor:`", when="monitor.topics"),
    )  # fmt: skip


def held_acls(names: TopicNames, topic: str, group: str) -> tuple[Acl, ...]:
    """The ACLs for holds, and for consumers of others that obey them."""
    consumer, when = (Role.CONSUMER,), "recoveryd.client"
    return (
        Acl((_D,), "watched", Resource.TOPIC, topic, ("Describe",), "tells whether a held topic exists", when="hold"),
        Acl((_D,), "watched", Resource.GROUP, group, ("Describe",), "tells who is silent beside those that obey", when="hold"),
        Acl(consumer, "main", Resource.TOPIC, names.status, ("Read",), "knows what is held", when=when),
        Acl(consumer, "main", Resource.TOPIC, names.control, ("Write",), "says that it obeys, unless `acknowledges=False`", when=when),
    )  # fmt: skip


def look_acls(topic: str) -> tuple[Acl, ...]:
    """The ACL for looking at a topic of a unit, as each plan does: at inputs, outputs, intermediate and
    internal ones.
    """
    why = "looks where it begins and ends, and how it is configured"
    return (Acl((_D, _R, _O), "unit", Resource.TOPIC, topic, ("Describe", "DescribeConfigs"), why, when="each plan of a unit"),)  # fmt: skip


def reset_acls(topic: str, group: str) -> tuple[Acl, ...]:
    """The ACLs for setting a consumer group to a position, and for putting it back."""
    return (
        Acl((_D,), "unit", Resource.TOPIC, topic, ("Read",), "looks up positions, sets offsets on it", when="reset"),
        Acl((_D,), "unit", Resource.GROUP, group, ("Read",), "sees members and offsets, and sets them", when="reset"),
        Acl((_D,), "unit", Resource.GROUP, group, ("Delete",), "takes commits away where there was none", when="rollback"),
    )  # fmt: skip


def reprocess_acls(output: str, internal: str) -> tuple[Acl, ...]:
    """The ACLs for letting an application begin again, besides those of `reset`."""
    again = ("Describe", "Create", "Delete", "DescribeConfigs")
    return (
        Acl((_D,), "unit", Resource.TOPIC, output, again, "makes it again, or another one like it", when="reprocess"),
        Acl((_D,), "unit", Resource.TOPIC, output, ("Read",), "counts what lies there", when="reprocess"),
        Acl((_D,), "unit", Resource.TOPIC, internal, ("Describe", "Delete"), "takes it away", when="reprocess"),
    )


def lease_acls(source: str) -> tuple[Acl, ...]:
    """The ACLs for keeping inputs from retention while a unit processes them again."""
    why = "keeps it whole for a time"
    return (Acl((_D,), "unit", Resource.TOPIC, source, ("AlterConfigs",), why, when="reprocess, keep_inputs"),)


def savepoint_acls(internal: str, copy: str) -> tuple[Acl, ...]:
    """The ACLs for cutting an application and for beginning with a cut, besides those of `reprocess` and of a replay
    from the one to the other.
    """
    held = ("DescribeConfigs", "AlterConfigs")
    return (
        Acl((_D,), "unit", Resource.TOPIC, internal, held, "keeps it as it is while it is copied", when="savepoint"),
        Acl(
            (_D,),
            "unit",
            Resource.TOPIC,
            copy,
            ("Create", "Delete", "DescribeConfigs"),
            "makes and deletes it, and sees one that is there",
            when="savepoint",
        ),
        Acl((_D,), "unit", Resource.TOPIC, internal, ("Create",), "makes it and fills it", when="restore_savepoint"),
    )


def upgrade_acls(output: str, internal: str) -> tuple[Acl, ...]:
    """The ACLs for letting another version go on, besides those of `reset`, of which it needs no Delete."""
    looked = ("Describe", "DescribeConfigs")
    return (
        Acl((_D,), "unit", Resource.TOPIC, internal, looked, "compares it with both versions", when="upgrade"),
        Acl((_D,), "unit", Resource.TOPIC, output, looked, "sees where it ends", when="upgrade"),
    )


def tail_acls(tail: str) -> tuple[Acl, ...]:
    """The ACLs for an exact take-over from a version that runs on, besides those of the replays that fill it."""
    operations = ("Create", "Read", "Write", "Delete")
    told = "fills it with what lies between the two stops, and takes it away"
    return (Acl((_D, _J), "unit", Resource.TOPIC, tail, operations, told, when="upgrade, online"),)


def runbook_acls(group: str, errors: str) -> tuple[Acl, ...]:
    """The ACLs for a runbook, besides those of what it begins."""
    quotas = ("DescribeConfigs", "AlterConfigs")
    slowed = "slows clients of others meanwhile (`quotas` of the command)"
    staged = "copies to it, and takes it away (`path: shadow`, and `replay` without a target)"
    return (
        Acl((_D,), "unit", Resource.GROUP, group, ("Describe",), "sees where it stands", when="runbook"),
        Acl((_D,), "unit", Resource.TOPIC, errors, ("Describe", "DescribeConfigs"), "sees what comes to it (`error_topics`)", when="runbook"),
        Acl((_D,), "unit", Resource.CLUSTER, CLUSTER_NAME, quotas, slowed, when="runbook"),
        Acl((_D, _J), "unit", Resource.TOPIC, "TOPIC.shadow-ID, TOPIC.ID", ("Create", "Read", "Write", "Delete"), staged, when="runbook"),
    )  # fmt: skip


def unit_acls(group: str, internal: str, transactional_id: str) -> tuple[Acl, ...]:
    """The ACLs for telling whether a unit is exactly once; without them that is not known."""
    once, ids = "exactly once or not", Resource.TRANSACTIONAL_ID
    return (
        Acl((_D, _R, _O), "unit", Resource.GROUP, group, ("Describe",), "type, members, offsets", when="unit"),
        Acl((_D, _R, _O), "unit", Resource.TOPIC, internal, ("Read",), "who wrote it last", when=once),
        Acl((_D, _R, _O), "unit", ids, transactional_id, ("Describe",), "its transactions", True, once),
    )


def exactly_once_acls(group: str, transactional_id: str, output: str) -> tuple[Acl, ...]:
    """What an exactly-once application itself needs, besides Read on its inputs: without it, it
    does not start again.
    """
    app = (Role.APPLICATION,)
    return (
        Acl(app, "unit", Resource.GROUP, group, ("Read",), "commits offsets, also in transactions", when="the application"),
        Acl(app, "unit", Resource.TRANSACTIONAL_ID, transactional_id, ("Write",), "its transactions", True, "exactly once"),
        Acl(app, "unit", Resource.TOPIC, output, ("Write",), "writes results", when="the application"),
        Acl(app, "unit", Resource.TOPIC, "its application.id", ("Create", "Read", "Write", "Delete", "DescribeConfigs"), "makes internal topics again after `reprocess`", True, "the application"),
    )  # fmt: skip


_TOPICS_OF_UNITS: Final = ("an input", "an output", "an intermediate topic", "an internal topic")


def every_need(names: TopicNames) -> tuple[Acl, ...]:
    """The whole table, with placeholders for names that users choose."""
    return (
        *own_acls(names),
        *replay_acls("the source", "the target", create=True),
        *watched_acls("the topic", "the group"),
        *held_acls(names, "a held topic", "a group that obeys"),
        *(acl for name in _TOPICS_OF_UNITS for acl in look_acls(name)),
        *reset_acls("an input", "the group of the unit"),
        *reprocess_acls("an output", "an internal topic"),
        *lease_acls("an input"),
        *savepoint_acls("an internal topic", "savepoint.NAME.TOPIC"),
        *upgrade_acls("an output of the old version", "an internal topic of the old version"),
        *tail_acls("an input of the `tail_unit`"),
        *runbook_acls("the group of the unit", "an error topic"),
        *unit_acls("the group of the unit", "an internal topic", "its application.id"),
        *exactly_once_acls("the group of the unit", "its application.id", "an output"),
    )

"""docs/acls.md, made from the table of ACLs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from recoveryd.wire.acls import every_need
from recoveryd.wire.topics import TopicNames
from tools.markdown import table

FILE: Final = Path("docs/acls.md")


def make_files() -> dict[Path, str]:
    headers = ("who", "cluster", "resource", "name", "operations", "needed for")
    return {FILE: "\n".join([_HEAD, table(headers, _rows(TopicNames())), _TAIL])}


_HEAD: Final = """\
# ACLs

What the users of recoveryd must be allowed on clusters with an authorizer. `clusters.main` of the config is *main*; the
clusters that a recovery reads from and writes to are *source* and *target*, those below `monitor:` are *watched* and
*canary*, that of a group or unit is *unit*; each of them may be *main* too. *each* means every cluster of the config.
Daemon and jobs use the same properties of `clusters:`, so usually one user has the rows of both; people and their scripts
need only the rows that begin with CLI. No user needs to be a super user.

Read and Write imply Describe, AlterConfigs implies DescribeConfigs. *prefixed* names are prefixes
(`--resource-pattern-type prefixed`). With another `topics.prefix` the names of the own topics change with it.
`recoveryctl doctor` says what is missing, also for one replay with `--source` and `--target`, and for the workflows of a
unit with `--unit`; a refusal (`RCV-2012`) names the missing ACL.

Made by `python -m tools.generate`; edit `daemon/recoveryd/wire/acls.py` instead.
"""


_TAIL: Final = """
For one user that is daemon and jobs, with Kafka's own tool:

    kafka-acls --bootstrap-server $B --command-config admin.properties --add --allow-principal User:recoveryd \\
      --topic recovery. --resource-pattern-type prefixed --operation Read --operation Write --operation DescribeConfigs
    kafka-acls ... --group recoveryd --resource-pattern-type prefixed --operation Read
    kafka-acls ... --transactional-id recoveryd --resource-pattern-type prefixed --operation Write
    kafka-acls ... --topic flights --operation Read --operation DescribeConfigs
    kafka-acls ... --topic flights.v42 --operation Create --operation Read --operation Write --operation DescribeConfigs
"""


def _rows(names: TopicNames) -> Iterator[tuple[str, ...]]:
    for acl in every_need(names):
        who = ", ".join(role.value for role in acl.roles)
        name = f"`{acl.name}`{' (prefixed)' if acl.prefixed else ''}" if " " not in acl.name else acl.name
        why = f"{acl.why} (`{acl.when}`)" if acl.when else acl.why
        yield who, acl.cluster, acl.resource.value, name, ", ".join(acl.operations), why

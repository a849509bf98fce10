"""What `recoveryctl doctor --unit NAME` asks: may the daemon's user do to a unit what its workflows do, so that a
missing right is named before a plan stands at it.
"""

from collections.abc import Iterator
from dataclasses import replace

from recoveryd.adapters.kafka.permissions import lacking, said_of
from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.verbs.doctor_checks import CheckPatience, CheckResult, bad, doubtful, failed, good, skipped
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit
from recoveryd.wire.acls import (
    Acl,
    Resource,
    Role,
    lease_acls,
    look_acls,
    reprocess_acls,
    reset_acls,
    runbook_acls,
    savepoint_acls,
    unit_acls,
    upgrade_acls,
)

_OF_SAVEPOINTS = "savepoint."
_UNKNOWN = ""  # where errors of a unit go, the config does not say


def check_unit(connection: Connection, name: str, patience: CheckPatience) -> Iterator[CheckResult]:
    settings = connection.settings
    unit = settings.units().get(name)
    if unit is None:
        yield bad(
            f"unit {name}", f"{Code.UNKNOWN_UNIT.value} The config has no unit {name!r}.", Code.UNKNOWN_UNIT.next_step
        )
        return
    properties, access = settings.librdkafka(unit.cluster), settings.access(unit.cluster)
    try:
        facts = read_unit(properties, unit, settings.units().values(), 0, access)
        wanted = _needs(unit, facts)
        every = [acl for needs, _is_optional in wanted.values() for acl in needs]
        missing = frozenset(lacking(properties, every, unit.consumer_group, patience.cluster_s))
    except RecoverydError as error:
        yield failed(f"unit {name}", error)
        return
    for workflow, (needs, is_optional) in wanted.items():
        yield _granted(f"{workflow} of {name}", needs, missing, is_optional)
    if facts.is_exactly_once is None:
        step = "Grant Describe on its transactional ids and Read on its internal topics, or say `exactly_once`."
        yield doubtful(f"guarantee of {name}", facts.guarantee_why or "It is not known.", step)
    else:
        said = "exactly once" if facts.is_exactly_once else "at least once"
        yield good(f"guarantee of {name}", f"{said}: {facts.guarantee_why}")


def _needs(unit: Unit, facts: UnitFacts) -> dict[str, tuple[list[Acl], bool]]:
    """By workflow: the rights that it needs, and whether only an option of it needs them. The right to make copies is
    asked for with names of topics that do not exist.
    """
    group, internals = unit.consumer_group, facts.internal.certain
    read = (*unit.inputs, *unit.intermediate)
    looks = [acl for topic in dict.fromkeys((*unit.own_topics, *internals)) for acl in look_acls(topic)]
    reset = [*looks, *(acl for topic in read for acl in reset_acls(topic, group))]
    told = [acl for internal in internals for acl in unit_acls(group, internal, unit.group)]
    again = [acl for out in unit.outputs for acl in reprocess_acls(out, internals[0] if internals else out)]
    again += [acl for each in internals for acl in reprocess_acls(each, each) if acl.name == each]
    cuts = [acl for each in internals for acl in savepoint_acls(each, f"{_OF_SAVEPOINTS}doctor.{each}"[:249])]
    upgrade = [
        acl for out in unit.outputs or internals for each in internals or (out,) for acl in upgrade_acls(out, each)
    ]
    runbook = [
        replace(acl, name=f"{out}.shadow-doctor"[:249]) if acl.resource is Resource.TOPIC else acl
        for out in unit.outputs or ("recoveryd",)
        for acl in runbook_acls(group, _UNKNOWN)
        if acl.name != _UNKNOWN
    ]
    found = {
        "reset": (reset, False),
        "reprocess": ([*reset, *told, *again], False),
        "reprocess --keep-inputs": ([acl for topic in unit.inputs for acl in lease_acls(topic)], True),
        "savepoint": ([*looks, *told, *(acl for acl in cuts if acl.when == "savepoint")], False),
        "restore-savepoint": ([*reset, *again, *cuts], False),
        "upgrade": ([acl for acl in (*reset, *upgrade) if "Delete" not in acl.operations], False),
        "runbook": ([*reset, *(acl for acl in runbook if acl.resource is not Resource.CLUSTER)], False),
        "runbook with quotas": ([acl for acl in runbook if acl.resource is Resource.CLUSTER], True),
    }
    return {
        workflow: ([acl for acl in needs if Role.DAEMON in acl.roles], is_optional)
        for workflow, (needs, is_optional) in found.items()
    }


def _granted(name: str, needs: list[Acl], missing: frozenset[str], is_optional: bool) -> CheckResult:
    if not needs:
        return skipped(name, "the unit has nothing that it would change")
    told = [said for acl in needs for said in said_of(acl) if said in missing]
    if told:
        said = f"{Code.NOT_AUTHORISED.value} Missing: {'; '.join(dict.fromkeys(told))}."
        step = "Grant them before a workflow needs them; docs/acls.md says what each is for."
        return doubtful(name, said, step) if is_optional else bad(name, said, step)
    count = len({said for acl in needs if acl.resource is not Resource.TRANSACTIONAL_ID for said in said_of(acl)})
    return good(name, f"{count} rights are granted")

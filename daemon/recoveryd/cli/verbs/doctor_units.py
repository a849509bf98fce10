"""What `recoveryctl doctor --unit NAME` asks: may the daemon's user do to a unit what its workflows do, so that a missing
right is named before a plan stands at it.
"""

from collections.abc import Iterator

from recoveryd.adapters.kafka.permissions import lacking
from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.verbs.doctor_checks import CheckResult, bad, doubtful, failed, good
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import CATALOGUE, Code
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit
from recoveryd.wire.acls import Acl, Role, reprocess_acls, reset_acls, savepoint_acls, unit_acls

_OF_SAVEPOINTS = "savepoint."


def check_unit(connection: Connection, name: str) -> Iterator[CheckResult]:
    settings = connection.settings
    unit = settings.units().get(name)
    if unit is None:
        entry = CATALOGUE[Code.UNKNOWN_UNIT]
        yield bad(f"unit {name}", f"{Code.UNKNOWN_UNIT.value} The config has no unit {name!r}.", entry.next_step)
        return
    properties, access = settings.librdkafka(unit.cluster), settings.access(unit.cluster)
    try:
        facts = read_unit(properties, unit, settings.units().values(), 0, access)
        needs = _needs(unit, facts)
        missing = lacking(properties, needs, unit.consumer_group)
    except RecoverydError as error:
        yield failed(f"unit {name}", error)
        return
    yield _granted(f"ACLs of unit {name}", needs, missing)
    if facts.is_exactly_once is None:
        step = "Grant Describe on its transactional ids and Read on its internal topics, or say `exactly_once`."
        yield doubtful(f"guarantee of {name}", facts.guarantee_why or "It is not known.", step)
    else:
        said = "exactly once" if facts.is_exactly_once else "at least once"
        yield good(f"guarantee of {name}", f"{said}: {facts.guarantee_why}")


def _needs(unit: Unit, facts: UnitFacts) -> list[Acl]:
    """Rights on what exists; whether copies of savepoints may be made is asked with a name that nobody has."""
    group = unit.consumer_group
    needs = [acl for topic in (*unit.inputs, *unit.intermediate) for acl in reset_acls(topic, group)]
    for internal in facts.internal.certain:
        needs += [*unit_acls(group, internal, unit.group)]
        needs += [*savepoint_acls(internal, f"{_OF_SAVEPOINTS}doctor.{internal}"[:249])]
    for output in unit.outputs:
        needs += reprocess_acls(output, facts.internal.certain[0] if facts.internal.certain else output)
    return [acl for acl in needs if Role.DAEMON in acl.roles]


def _granted(name: str, needs: list[Acl], missing: list[str]) -> CheckResult:
    if missing:
        told = "; ".join(dict.fromkeys(missing))
        step = "Grant them before a workflow needs them; docs/acls.md says what each is for."
        return bad(name, f"{Code.NOT_AUTHORISED.value} Missing: {told}.", step)
    return good(name, f"{len(needs)} needs of reset, reprocess and savepoint are granted")

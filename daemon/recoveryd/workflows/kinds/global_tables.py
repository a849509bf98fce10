"""Topics that an application reads into global tables. Each instance reads them whole, by a consumer that has no group:
nobody commits there, so no offset is set there, and none is waited for. Only the topology tells which they are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit
from recoveryd.workflows.model.facts import GroupFound
from recoveryd.workflows.model.positions import PartitionLook
from recoveryd.workflows.model.step_names import CATCH_UP


def missing_tables(unit: Unit, facts: UnitFacts) -> tuple[str, ...]:
    """Those that do not exist. They are looked at with the unit's topics, not with the positions of its group."""
    read = (name for name in (*unit.inputs, *unit.intermediate) if name in unit.read_globally)
    return tuple(name for name in read if name not in facts.topics)


def refuse_table(field: str, named: Collection[str], unit: Unit) -> Refused | None:
    """Of topics whose offsets a command names."""
    name = next((name for name in sorted(named) if name in unit.read_globally), None)
    if name is None:
        return None
    message = f"{field}: {unit.name} reads {name} as a global table, where its group has no position"
    return Refused(Code.INVALID_VALUE, message, "Leave it out.")


def told_uncommitted(
    unit: Unit, looks: Iterable[PartitionLook], committed: Mapping[str, Collection[object]]
) -> Iterator[str]:
    """Where no topology tells: inputs with records, and without any commit, while there are some elsewhere."""
    if unit.topology is not None or not any(committed.values()):
        return
    full = {look.topic for look in looks if look.high_watermark > look.log_start}
    for name in unit.inputs:
        if name in full and not committed.get(name):
            yield (
                f"nothing was ever committed on {name}, and elsewhere it was: if {unit.name} reads it as a global table, "
                f"somebody has to `ack` {CATCH_UP} with a note; the topology in the config would tell"
            )


def commits_of(found: GroupFound) -> Mapping[str, Collection[object]]:
    return found.group.committed if found.group is not None else {}

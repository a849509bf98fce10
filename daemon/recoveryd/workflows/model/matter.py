"""A hash of the parts of a unit's config that a plan depends on."""

from recoveryd.units.model import Unit
from recoveryd.workflows.model.hashing import hash_of


def matter_of(unit: Unit | None) -> str:
    """A hash; empty of a unit that the config does not have."""
    if unit is None:
        return ""
    topics = (unit.inputs, unit.intermediate, sorted(unit.outputs))
    state = (unit.stateful, sorted(unit.topology.through) if unit.topology is not None else [])
    return hash_of({"unit": (unit.cluster, unit.group, unit.kind.value, unit.control.value, topics, state)})

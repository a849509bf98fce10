"""What of a unit a plan rests on: when it is another thing in the config, what was planned or waited for is too."""

from recoveryd.units.model import Unit
from recoveryd.workflows.model.hashing import hash_of


def matter_of(unit: Unit | None) -> str:
    """A hash; empty of a unit that the config does not have."""
    if unit is None:
        return ""
    topics = (unit.inputs, unit.intermediate, sorted(unit.outputs))
    state = (unit.stateful, sorted(unit.topology.through) if unit.topology is not None else [])
    return hash_of({"unit": (unit.cluster, unit.group, unit.kind.value, unit.control.value, topics, state)})

"""Units that a copy concerns: their inputs are what is copied, or are written to."""

from collections.abc import Mapping
from typing import Final

from recoveryd.recovery.spec import Spec
from recoveryd.units.model import Unit

CONCERNED_MOST: Final = 20  # each costs the plan some questions


def concerned_units(spec: Spec, units: Mapping[str, Unit]) -> tuple[Unit, ...]:
    """In the order of their names; none for what writes nothing."""
    if not spec.copies:
        return ()
    places = {(spec.source.cluster, spec.source.topic), (spec.target.cluster, spec.target.topic)}
    found = [unit for _, unit in sorted(units.items()) if any((unit.cluster, name) in places for name in unit.inputs)]
    return tuple(found[:CONCERNED_MOST])

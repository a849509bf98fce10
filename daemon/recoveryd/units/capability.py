"""Units as a capability: it takes no command yet; it watches."""

from collections.abc import Mapping

from recoveryd.kernel.capability import Capability, on
from recoveryd.units.events import RetentionSeen
from recoveryd.units.model import Unit
from recoveryd.units.retention import UnitsDraft, make_measures, on_retention

NAME = "units"


def make_units(units: Mapping[str, Unit]) -> Capability[UnitsDraft]:
    return Capability(
        name=NAME,
        view=UnitsDraft,
        make_view=lambda draft: UnitsDraft(draft, units),
        events=(RetentionSeen,),
        handlers=(on(RetentionSeen, on_retention),),
        measures=make_measures(),
    )

"""Units as a capability: it takes no commands. It watches how long inputs are kept, and takes over units that were read
again from the config.
"""

from collections.abc import Iterator, Mapping

from recoveryd.kernel.capability import Capability, on
from recoveryd.kernel.metrics import Measures, Sample
from recoveryd.kernel.state import CoreState
from recoveryd.units.draft import UNITS, UnitsDraft
from recoveryd.units.events import RetentionSeen, UnitsRead
from recoveryd.units.model import Unit
from recoveryd.units.rereading import NOT_REREAD, on_read
from recoveryd.units.retention import RETENTION_SHORT, on_retention

NAME = "units"


def make_units(units: Mapping[str, Unit]) -> Capability[UnitsDraft]:
    return Capability(
        name=NAME,
        view=UnitsDraft,
        make_view=lambda draft: UnitsDraft(draft, units),
        events=(RetentionSeen, UnitsRead),
        handlers=(on(RetentionSeen, on_retention), on(UnitsRead, on_read)),
        measures=Measures((RETENTION_SHORT, NOT_REREAD), gauges=_gauges),
    )


def _gauges(state: CoreState, _now_ms: int) -> Iterator[Sample]:
    units = state.of(UNITS)
    for unit, short in units.short.items():
        yield Sample(RETENTION_SHORT, (unit,), float(bool(short)))
    yield Sample(NOT_REREAD, (), float(units.problem is not None))

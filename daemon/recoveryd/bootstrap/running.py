"""The loop as those know it that are made before it, because it gets them itself."""

from collections.abc import Mapping

from recoveryd.kernel.state import CoreState
from recoveryd.recovery.slice import RECOVERY
from recoveryd.runtime import Runtime
from recoveryd.units.draft import units_in
from recoveryd.units.model import Unit


class Running:
    """Asked only once all parts are made and the loop was `set`. `units`: those of the config at the start."""

    def __init__(self, units: Mapping[str, Unit]) -> None:
        self._units = units
        self._runtime: Runtime | None = None

    def set(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None
        return self._runtime

    @property
    def state(self) -> CoreState:
        return self.runtime.state

    def is_leader(self) -> bool:
        return self.runtime.vitals.role == "leader"

    def state_of_leader(self) -> CoreState | None:
        """None while this daemon does not lead."""
        return self.state if self.is_leader() else None

    def units(self) -> Mapping[str, Unit]:
        """As they were read last."""
        return units_in(self.state, self._units)

    def measured(self) -> tuple[float | None, str]:
        """The rate of a recovery without a limit in bytes/s, None = unknown, and where it comes from, for plans."""
        return self.state.of(RECOVERY).measured_bytes_per_s, "measured"

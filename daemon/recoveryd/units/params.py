"""What every capability that works on units needs of the config, and how it gets the units that are in force."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from recoveryd.kernel.state import CoreState
from recoveryd.units.approvals import ApprovalRule
from recoveryd.units.draft import units_in
from recoveryd.units.model import Unit


@dataclass(frozen=True, slots=True)
class UnitParams:
    """`units`: those that the daemon started with, by name."""

    units: Mapping[str, Unit] = field(default_factory=dict)
    approvals: tuple[ApprovalRule, ...] = ()


_Params = TypeVar("_Params", bound=UnitParams)


def with_units(params: _Params, state: CoreState) -> _Params:
    """With the units that are in force."""
    units = units_in(state, params.units)
    return params if units is params.units else replace(params, units=units)

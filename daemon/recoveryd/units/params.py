"""What every capability that works on units needs of the config, and how it gets the units that are in force."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from recoveryd.kernel.state import CoreState
from recoveryd.units.approvals import ApprovalRule
from recoveryd.units.draft import UNITS, units_in
from recoveryd.units.model import Unit


@dataclass(frozen=True, slots=True)
class UnitParams:
    """`units`: those that the daemon started with, by name; `approvals`: the rules beside them."""

    units: Mapping[str, Unit] = field(default_factory=dict)
    approvals: tuple[ApprovalRule, ...] = ()


_Params = TypeVar("_Params", bound=UnitParams)


def with_units(params: _Params, state: CoreState) -> _Params:
    """With the units that are in force, and the rules: who may approve is said of both together."""
    units, approvals = units_in(state, params.units), state.of(UNITS).approvals
    if approvals is None:
        approvals = params.approvals
    is_same = units is params.units and approvals is params.approvals
    return params if is_same else replace(params, units=units, approvals=approvals)

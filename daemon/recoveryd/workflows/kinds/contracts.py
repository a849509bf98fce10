"""What a plan that has inputs processed again says of the contract by which that can be done."""

from recoveryd.kernel.refused import Refused
from recoveryd.units.contract import UnitContract, look_at_contract, refuse_contract
from recoveryd.units.model import Unit
from recoveryd.workflows.model.facts import Found


def contracts_of(unit: Unit | None, found: Found) -> tuple[UnitContract, ...] | Refused:
    """One at most: that of the unit, unless it requires a clause that is missing or bad."""
    if unit is None:
        return ()
    contract = look_at_contract(unit, found.units.get(unit.name))
    return refuse_contract(unit, contract) or (contract,)


def told_of_contracts(contracts: tuple[UnitContract, ...]) -> tuple[str, ...]:
    return tuple(contract.told(clause) for contract in contracts for clause in contract.problems)

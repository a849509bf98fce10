"""The units of the config and the rules of who approves, read again while the daemon runs. Everything else of the
config stays as it was read at the start, so what is read must fit it.
"""

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.sources import Key, origin_of
from recoveryd.settings.unit_control import UnitControl
from recoveryd.settings.view import Settings
from recoveryd.units.model import ControlKind
from recoveryd.units.params import UnitParams

_RESTART = "Restart the daemon: clusters, webhooks and control are read when it starts."


def units_again(running: Settings, read: Settings) -> UnitParams:
    """The units of `read` and its rules, which are written for them, as they are in force from now on. Raises
    `ConfigProblem`, and then none of them is.
    """
    for name, unit in read.values.units.items():
        if unit.cluster not in running.values.clusters:
            message = f"{unit.cluster} is not a cluster that the running daemon knows"
            raise _problem(read, ("units", name, "cluster"), message)
        before = running.values.units.get(name)
        if unit.control != (before.control if before is not None else UnitControl()):
            raise _problem(read, ("units", name, "control"), "is not as the running daemon has it")
        if before is not None and unit.control.kind is ControlKind.CONNECT and unit.group != before.group:
            # It is the name of the connector that is stopped and started.
            raise _problem(read, ("units", name, "group"), "is not as the running daemon has it")
    return UnitParams(read.units(), read.values.approval_rules)


def _problem(read: Settings, key: Key, message: str) -> ConfigProblem:
    origin = origin_of(key, read.origins)
    name = ".".join(key)
    return ConfigProblem(
        f"{name} {message}.", _RESTART, code=Code.CONFIG_INVALID, key=name, origin=origin.name, line=origin.line
    )

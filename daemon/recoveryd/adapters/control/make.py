"""The adapters of all units, from what the config says of their `control`. Reads secrets; raises `ConfigProblem`."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recoveryd.adapters.control.controls import ManualApplications, UnitControls
from recoveryd.adapters.control.process import ProcessApplications
from recoveryd.adapters.control.process_sight import ProcessApplication
from recoveryd.ports import ApplicationControl
from recoveryd.settings.unit_control import ControlOptions
from recoveryd.units.model import ControlKind


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all adapters share. `folder` is kept from one daemon to the next; `installation` is the same for all daemons
    that may take over from each other, and for no others.
    """

    folder: Path
    installation: str
    environment: Mapping[str, str] = field(repr=False)
    now_ms: Callable[[], int]


def make_controls(units: Mapping[str, ControlOptions], around: Surroundings) -> UnitControls:
    by_kind: dict[ControlKind, list[ControlOptions]] = {}
    for options in units.values():
        by_kind.setdefault(options.values.kind, []).append(options)
    adapters: dict[ControlKind, ApplicationControl] = {
        ControlKind.MANUAL: ManualApplications(),
        ControlKind.PROCESS: ProcessApplications(
            [_process(options) for options in by_kind.get(ControlKind.PROCESS, [])],
            around.folder,
            around.installation,
            around.environment,
            around.now_ms,
        ),
    }
    manual = adapters[ControlKind.MANUAL]  # a person, too, where a kind cannot be asked by a daemon yet
    by_unit = {options.unit: adapters.get(kind, manual) for kind, group in by_kind.items() for options in group}
    return UnitControls(by_unit, tuple(adapters.values()))


def _process(options: ControlOptions) -> ProcessApplication:
    if not hasattr(os, "pidfd_open"):
        raise options.problem("kind", "process needs Linux 5.3 or newer.", "Let a webhook stop and start it.")
    values = options.values
    return ProcessApplication(
        unit=options.unit,
        command=values.start or (),
        folder=options.path("work_dir") or Path.cwd(),
        environment=options.variables(),
        stop_timeout_ms=values.stop_timeout,
        log_most=values.log_most,
    )

"""Spare Spark drivers: applications that are up and wait for a spec, so that a first record is copied within a second
or two.

A spare belongs to the daemon that started it and leaves when that is gone. Once handed over it is an attempt like any
other.
"""

import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recoveryd.adapters.spark.attempt_folders import AttemptFolder, WorkDir
from recoveryd.adapters.spark.command import SparkProfile
from recoveryd.adapters.spark.processes import end_group

REFILL_AFTER_S = 15.0  # starting one costs a machine's whole attention, which the attempt just begun needs
_AFTER_FAILURE_S = 60.0

_log = logging.getLogger("recoveryd.jobs")

Start = Callable[[SparkProfile, AttemptFolder, str, list[str]], "subprocess.Popen[bytes]"]


@dataclass(frozen=True, slots=True)
class Spare:
    process: "subprocess.Popen[bytes]"
    folder: AttemptFolder
    started_s: float


class SparePool:
    """Keeps `warm` spares of each profile. Blocking; used by one thread at a time."""

    def __init__(self, profiles: Mapping[str, SparkProfile], work_dir: WorkDir, start: Start) -> None:
        self._profiles = {name: p for name, p in profiles.items() if p.warm > 0}
        self._work_dir = work_dir
        self._start = start
        self._spares: dict[str, list[Spare]] = {name: [] for name in self._profiles}
        self._not_before_s = dict.fromkeys(self._profiles, 0.0)

    def refill(self) -> None:
        """Bury the dead and start at most one new spare per profile. Never raises: without spares things are only
        slower.
        """
        for name, profile in self._profiles.items():
            self._bury(name)
            if len(self._spares[name]) < profile.warm and time.monotonic() >= self._not_before_s[name]:
                try:
                    self._spares[name].append(self._make(profile))
                except Exception as error:  # noqa: BLE001  (whatever it is, the next attempt starts cold and tells)
                    self._not_before_s[name] = time.monotonic() + _AFTER_FAILURE_S
                    _log.warning("No spare driver for profile %s: %s", name, error)

    def take(self, profile: str) -> Spare | None:
        """The spare that had most time to get ready, or None."""
        if profile not in self._profiles:
            return None
        self._bury(profile)
        spares = self._spares[profile]
        if not spares:
            # The next spare does not start later because of this: recoveries that follow each other quickly would never
            # find one again.
            return None
        self._not_before_s[profile] = time.monotonic() + REFILL_AFTER_S
        return spares.pop(0)

    def hurry(self) -> None:
        """An attempt ended, and the machine has time: what is missing may be started at once, unless one failed to
        start just now.
        """
        now_s = time.monotonic()
        for name, not_before_s in self._not_before_s.items():
            if not_before_s - now_s <= REFILL_AFTER_S:
                self._not_before_s[name] = now_s

    def in_use(self) -> list[AttemptFolder]:
        return [spare.folder for spares in self._spares.values() for spare in spares]

    def close(self) -> None:
        """End all spares."""
        for spares in self._spares.values():
            for spare in spares:
                end_group(spare.process.pid, wait_s=1.0)
                spare.process.wait(5.0)
                self._work_dir.drop_spare(spare.folder)
            spares.clear()

    def _make(self, profile: SparkProfile) -> Spare:
        folder = self._work_dir.make_spare()
        job = ["--spare", str(folder.path), "--parent", str(os.getpid()), "--slots", str(profile.task_slots)]
        process = self._start(profile, folder, "recoveryd-spare", job)
        return Spare(process, folder, time.monotonic())

    def _bury(self, name: str) -> None:
        living = []
        for spare in self._spares[name]:
            code = spare.process.poll()
            if code is None:
                living.append(spare)
                continue
            self._not_before_s[name] = time.monotonic() + _AFTER_FAILURE_S
            _log.warning("A spare driver ended with %s: %s", code, spare.folder.log_tail(3))
            self._work_dir.drop_spare(spare.folder)
        self._spares[name] = living

"""The Spark profiles of the config, with checks for those that could never run a replay.

Only the profile itself is checked here; what the cluster really gives is known once an application runs.
"""

import os
import re
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, model_validator

from recoveryd.settings.kinds import LOCAL_MASTER, Master, Section, SparkText, option

_CLIENT_ONLY: Final = (
    "the driver has to run beside the daemon, which gives it its spec file and ends it; executors may run anywhere"
)
_WHOLE: Final = re.compile(r"[1-9]\d{0,8}", flags=re.ASCII)


def _check_names(conf: dict[str, str]) -> dict[str, str]:
    """Spark leaves out what is none of its properties, and only a warning says so."""
    for name in conf:
        if not name.startswith("spark."):
            raise ValueError(
                f"{name!r} is no property of Spark, whose names begin with 'spark.'; as a variable they are one mapping, "
                "RECOVERYD_PROFILES__DEFAULT__CONF='{spark.executor.memory: 4g}'"
            )
    return conf


class Profile(Section):
    master: Master = option("local[2,4]", "Spark master. local[N,M]: N lanes at once, M tries per task.")
    driver_memory: str = option(
        "512m", "Heap of the driver, as Spark writes it.", pattern=r"^[1-9][0-9]{0,5}[kmgtKMGT]$"
    )
    conf: Annotated[dict[str, SparkText], AfterValidator(_check_names)] = option(
        {}, "More Spark properties, passed on as they are; a secret is ${file:PATH} or ${env:NAME}.", repr=False
    )
    warm: int = option(0, "Spare drivers kept ready, so that a recovery starts within a second.", ge=0, le=8)
    task_slots: Annotated[int, Field(ge=1, le=10_000)] | None = option(
        None, "Lanes that can run at once; null takes N of local[N], other masters need it."
    )
    nice: int = option(
        10,
        "How much lower the processor priority of Spark processes is than the daemon's (Unix nice, 0 to 19).",
        ge=0,
        le=19,
    )

    @property
    def slots(self) -> int:
        """How many lanes can run at once."""
        if self.task_slots is not None:
            return self.task_slots
        return self._local_cores // self._number("spark.task.cpus", 1)

    @property
    def _local_cores(self) -> int:
        match = LOCAL_MASTER.fullmatch(self.master)
        count = match[1] if match else None
        return (os.cpu_count() or 1) if count == "*" else int(count or 1)

    @model_validator(mode="before")
    @classmethod
    def _runs_the_driver_here(cls, value: Any) -> Any:
        for name in ("deployMode", "deploy_mode"):
            if isinstance(value, dict) and name in value:
                raise ValueError(f"{name} cannot be chosen: {_CLIENT_ONLY}")
        return value

    @model_validator(mode="after")
    def _check_spark(self) -> Self:
        if self.task_slots is None and not LOCAL_MASTER.fullmatch(self.master):
            raise ValueError(
                "task_slots is required with this master, because only local[N] says how many tasks run at once"
            )
        if self.conf.get("spark.speculation", "false").lower() != "false":
            raise ValueError("conf must not switch spark.speculation on: two copies of a lane would fence each other")
        if self.conf.get("spark.submit.deployMode", "client") != "client":
            raise ValueError(f"conf must not set spark.submit.deployMode to cluster: {_CLIENT_ONLY}")
        for name, ours in (("spark.master", "master"), ("spark.driver.memory", "driver_memory")):
            if name in self.conf:
                raise ValueError(f"conf must not name {name}: the profile's {ours} says it")
        most = self._most_slots()
        if self.slots < 1 or (most is not None and self.slots > most):
            raise ValueError(
                f"task_slots is {self.slots}, but master and conf let {most or 0} tasks run at once, so "
                "lanes that follow would wait for ever"
            )
        return self

    def _most_slots(self) -> int | None:
        """The most slots that master and conf allow; None when the cluster decides."""
        cpus = self._number("spark.task.cpus", 1)
        if LOCAL_MASTER.fullmatch(self.master):
            return self._local_cores // cpus
        bounds = []
        if "spark.cores.max" in self.conf:
            bounds.append(self._number("spark.cores.max", 1) // cpus)
        is_dynamic = self.conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true"
        executors = "spark.dynamicAllocation.maxExecutors" if is_dynamic else "spark.executor.instances"
        if executors in self.conf and "spark.executor.cores" in self.conf:
            bounds.append(self._number(executors, 1) * (self._number("spark.executor.cores", 1) // cpus))
        return min(bounds) if bounds else None

    def _number(self, name: str, default: int) -> int:
        text = self.conf.get(name, str(default))
        if not _WHOLE.fullmatch(text):
            raise ValueError(f"conf has {name} {text!r}, which is not a whole number of at least 1")
        return int(text)

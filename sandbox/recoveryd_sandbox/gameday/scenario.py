"""The numbers of a game day as its scenario file says them: the load, the SLOs, the faults, and what is promised. All
of it is fixed before anything runs. Durations in ms, sizes in bytes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from recoveryd.settings.kinds import Duration, Section, Size, Word
from recoveryd_sandbox.scenario_file import read_scenario

TOPIC = "flights.live"
GROUP = "flights-board"
PARTITIONS = 4
HEALTH_NAME = "live_produce_p99"
FOLDER: Final = Path(__file__).with_name("scenarios")
NAMES: Final = ("shared-core", "today", "harmless", "swings", "near-limit")  # in the order in which they run

# Kafka's own `compression.type`: what the broker itself has to do with each batch that it is sent.
Compression = Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=200_000)]


@dataclass(frozen=True)
class Slos:
    """A second is violated when the p99 of the observer's acknowledgements, or the time lag of the protected group, is
    at or over its SLO.
    """

    p99_s: float
    lag_s: float


class SloSection(Section):
    p99: Duration
    lag: Duration

    @property
    def slos(self) -> Slos:
        return Slos(self.p99 / 1000, self.lag / 1000)


class Load(Section):
    """Live traffic, and the backlog that is copied; both are in the same topic. `swing`: live traffic at half its rate
    and at twice its rate, in turns of this length. `reader_records_per_s`: the protected group computes for each
    record, and with a core of its own can do no more.
    """

    live_records_per_s: Rate
    backlog_records: Annotated[int, Field(ge=1_000, le=100_000_000)]
    swing: Duration | None = None
    reader_records_per_s: Rate | None = None

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        most = self.live_records_per_s * (2 if self.swing else 1)
        if self.reader_records_per_s is not None and self.reader_records_per_s <= most:
            raise ValueError(f"reader_records_per_s must be above the {most:g} records/s that live traffic reaches")
        return self


class SlowBrokerSection(Section):
    """The broker is stopped for `stop` of every `cycle`, for `lasts`, once `at` of the copy is done."""

    stop: Duration = 150
    cycle: Duration = 300
    lasts: Duration = 12_000
    at: Share = 0.4

    @model_validator(mode="after")
    def _goes_on(self) -> Self:
        if self.stop >= self.cycle:
            raise ValueError("stop must be shorter than cycle")
        return self


class CutSection(Section):
    """One more run under the controller, in which the live application's telemetry is cut once `at` is copied."""

    lasts: Duration = 60_000
    at: Share = 0.4


class DeathSection(Section):
    """One more run under the controller, in which the daemon is killed once `at` is copied, and started again later."""

    lasts: Duration = 60_000
    at: Share = 0.4


class Target(Section):
    """The controller's time is at most `most_times` that of the best fixed rate, or of the unlimited run. `strictly`:
    less than that.
    """

    against: Literal["best fixed", "unlimited"]
    most_times: Annotated[float, Field(ge=1, le=10)]
    strictly: bool = False
    bad_share_most: Share = 0.02


class Scenario(Section):
    """`cores`: broker, lanes and daemon are bound to so many; all that there are without it. `most` and `floor` bound
    the controller; `most` is above what an unlimited copy or proof reaches, so that only live traffic holds the
    controller back.
    `target_compression`: of the topic that is copied to.
    """

    name: Word
    about: Annotated[str, Field(min_length=10, max_length=400)]
    slo: SloSection
    load: Load
    target: Target
    cores: Annotated[int, Field(ge=1, le=1_024)] | None = None
    slow_broker: SlowBrokerSection | None = None
    cut: CutSection | None = None
    death: DeathSection | None = None
    target_compression: Compression = "producer"
    verify: Literal["source", "digest", "count"] = "source"
    quiet: Duration = 60_000  # of each stretch without a replay, what is not slowed
    idle: Duration = 20_000  # before each run
    run_deadline: Duration = 1_200_000
    most: Size = 200_000_000
    floor: Size = 600_000

    @property
    def slos(self) -> Slos:
        return self.slo.slos


def read_gameday(name: str) -> Scenario:
    """A scenario by name, or by the path of its file. Raises `ConfigProblem`."""
    path = FOLDER / f"{name}.yaml" if name in NAMES else Path(name)
    return read_scenario(path, Scenario, FOLDER / "today.yaml")

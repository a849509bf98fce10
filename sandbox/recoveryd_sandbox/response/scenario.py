"""What `make response` runs, as its file says it, and in which order."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from recoveryd.settings.kinds import Duration, Section, Word
from recoveryd_sandbox.gameday.scenario import Compression, SloSection
from recoveryd_sandbox.scenario_file import read_scenario

STANDARD: Final = Path(__file__).with_name("standard.yaml")
_HEAD_ROOM: Final = 1.3  # the unlimited rate of a later step may be higher than the first one's


class ResponseScenario(Section):
    """Shares are parts of the unlimited rate; 0 is no replay, 1 a replay without limits. `seen_least`: the
    part of its seconds that a step must have been observed in.
    """

    name: Word
    live_records_per_s: Annotated[float, Field(gt=0, le=200_000)]
    backlog_records: Annotated[int, Field(ge=1_000, le=100_000_000)]
    target_compression: Compression = "producer"
    slo: SloSection
    shares: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=3, max_length=20)]
    seconds: Annotated[int, Field(ge=2, le=3_600)]
    repeats: Annotated[int, Field(ge=1, le=10)]
    seed: Annotated[int, Field(ge=0)]
    warm_up: Duration
    rest: Duration
    seen_least: Annotated[float, Field(gt=0, le=1)] = 0.9

    @model_validator(mode="after")
    def _has_a_curve(self) -> Self:
        if not {0, 1} <= set(self.shares) or len(set(self.shares)) != len(self.shares):
            raise ValueError("shares must have 0 and 1, and each share once")
        return self

    def order(self) -> list[tuple[int, float]]:
        """(repeat, share) of all steps, shuffled by `seed`, so that a drift of the machine is not taken for an
        answer.
        """
        steps = [(repeat, share) for repeat in range(1, self.repeats + 1) for share in self.shares]
        random.Random(self.seed).shuffle(steps)
        return steps

    def records_needed(self, unlimited_records_per_s: float) -> int:
        """The backlog that lasts through the longest step."""
        longest_s = self.seconds + self.warm_up / 1000 + self.rest / 1000
        return int(_HEAD_ROOM * longest_s * unlimited_records_per_s)


def read_response_scenario(path: Path | None = None, changes: Mapping[str, int] | None = None) -> ResponseScenario:
    """The file, or the standard one, with other numbers from the command line. Raises `ConfigProblem`."""
    return read_scenario(path or STANDARD, ResponseScenario, STANDARD, changes or {})

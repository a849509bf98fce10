"""The data of the commands that steer a recovery."""

from collections.abc import Mapping
from typing import Final, Self

from pydantic import Field, model_validator

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Meta, StopCommand
from recoveryd.recovery.commands import Approve, Pause, Reject, Resume, Throttle
from recoveryd.recovery.wire.parts import MODE, Mode, PlanHash, check_mode
from recoveryd.wire.fields import ByteRate, Rate, Strict, Tier, Weight
from recoveryd.wire.forms import CommandData, VerbForm, verb_form
from recoveryd.wire.problems import wrong


class RatesData(Strict):
    max_bytes_per_s: ByteRate | None = Field(default=None, description="rate of all lanes together; null lifts")
    max_records_per_s: Rate | None = Field(default=None, description="rate of all lanes together; null lifts")
    mode: Mode | None = Field(default=None, description=f"{MODE}; null = by what is protected and what rate is given")
    weight: Weight | None = Field(default=None, description="its share next to others; null = 1")
    tier: Tier | None = Field(default=None, description="lower tiers are served first; null = 0")

    @model_validator(mode="after")
    def _names_a_rate(self) -> Self:
        if not self.model_fields_set:
            raise wrong(
                "is empty", "Name max_bytes_per_s or max_records_per_s; null lifts it.", code=Code.MISSING_FIELD
            )
        has_rate = self.max_bytes_per_s is not None or self.max_records_per_s is not None
        # A limit that is not named keeps its value, so only the daemon knows whether a fixed mode has a rate.
        if has_rate or self.mode != "fixed" or {"max_bytes_per_s", "max_records_per_s"} <= self.model_fields_set:
            check_mode(self.mode, has_rate)
        return self


class PauseData(CommandData):
    release: bool = Field(
        default=False, description="let the Spark application go once it is paused; resume starts another one"
    )


class ResumeData(CommandData):
    pass


class StopData(CommandData):
    pass


class ThrottleData(CommandData):
    limits: RatesData = Field(description="what is not named stays as it is; null lifts it")


class ApproveData(CommandData):
    plan_hash: PlanHash


class RejectData(CommandData):
    plan_hash: PlanHash


def _throttle(meta: Meta, data: ThrottleData) -> Throttle:
    return Throttle(meta, {name: getattr(data.limits, name) for name in sorted(data.limits.model_fields_set)})


FORMS: Final[Mapping[str, VerbForm]] = {
    "pause": verb_form(
        PauseData,
        "drained: `pausing`, then `paused` once no chunk is open",
        lambda meta, data: Pause(meta, data.release),
    ),
    "resume": verb_form(ResumeData, "continues at the exact position", lambda meta, _: Resume(meta)),
    "stop": verb_form(StopData, "drained stop at a chunk boundary; ends `stopped`", lambda meta, _: StopCommand(meta)),
    "throttle": verb_form(ThrottleData, "takes effect within 5 s, without a new Spark application", _throttle),
    "approve": verb_form(
        ApproveData, "lets a recovery in `awaiting_approval` run", lambda meta, data: Approve(meta, data.plan_hash)
    ),
    "reject": verb_form(
        RejectData, "ends a recovery in `awaiting_approval`", lambda meta, data: Reject(meta, data.plan_hash)
    ),
}

"""The data of `upgrade`."""

from typing import Annotated, Final, Literal

from pydantic import Field

from recoveryd.recovery.wire.parts import PlanHash
from recoveryd.wire.fields import Name, Runtime, Strict
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.workflows.model.commands import Upgrade
from recoveryd.workflows.model.spec import Cutover, OnIncompatible, ReadyWhen, UpgradeMode, UpgradeSpec

_LAG_MOST_S: Final = 86_400
LagSeconds = Annotated[float, Field(gt=0, le=_LAG_MOST_S)]


class ReadyData(Strict):
    lag_seconds: LagSeconds = Field(default=10, description="at most so far behind the ends of its inputs")
    hold: Runtime | None = Field(default=None, description="for so long without a break; left out: a minute")

    def to_core(self) -> ReadyWhen:
        return ReadyWhen(round(self.lag_seconds * 1_000), 60_000 if self.hold is None else self.hold)


class UpgradeData(CommandData):
    unit: Name = Field(description="the old version, a unit of the daemon's config")
    to_unit: Name = Field(
        description="the new version, a unit of the daemon's config; of another group, it gets state and offsets by a "
        "savepoint, or has its own (`online`)"
    )
    mode: Literal["offline", "online"] = Field(
        default="offline",
        description="`offline`: the old version is stopped before the new one starts; `online`: the new one runs beside it "
        "until it is ready",
    )
    on_incompatible: Literal["fail", "continue"] = Field(
        default="fail",
        description="where the new version would not find the state of the old one: refuse it, and ask a person where "
        "nobody can tell; or `continue`",
    )
    ready: ReadyData | None = Field(
        default=None, description="of `online`: when the new version may take over; left out: 10 s behind for a minute"
    )
    cutover: Literal["exact", "at_least_once"] = Field(
        default="exact",
        description="of `online`: readers see each input once, or those between the two stops from both versions",
    )
    staged_unit: Name | None = Field(
        default=None,
        description="of `online`: the new version as it runs beside the old one, a unit of its group with outputs of its own",
    )
    tail_unit: Name | None = Field(
        default=None,
        description="of `online`, `exact`, where the new version keeps state: it as it reads what lies between the two stops, a "
        "unit of its group with an input in place of each of its own, and outputs that nobody reads",
    )
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )

    def to_core(self) -> UpgradeSpec:
        return UpgradeSpec(
            unit=self.unit,
            to_unit=self.to_unit,
            mode=UpgradeMode(self.mode),
            on_incompatible=OnIncompatible(self.on_incompatible),
            ready=None if self.ready is None else self.ready.to_core(),
            cutover=Cutover(self.cutover),
            staged_unit=self.staged_unit,
            tail_unit=self.tail_unit,
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
        )


UPGRADE_FORM: Final = verb_form(
    UpgradeData,
    "new workflow: a newer version of an application goes on where the older one stops",
    lambda meta, data: Upgrade(meta, data.to_core()),
)

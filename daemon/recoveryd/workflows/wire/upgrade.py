"""The data of `upgrade`."""

from typing import Final, Literal

from pydantic import Field

from recoveryd.recovery.wire.parts import PlanHash
from recoveryd.wire.fields import Name
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.workflows.spec import OnIncompatible, Upgrade, UpgradeSpec


class UpgradeData(CommandData):
    unit: Name = Field(description="the old version, a unit of the daemon's config")
    to_unit: Name = Field(description="the new version, a unit of the daemon's config that has the same group")
    mode: Literal["offline"] = Field(
        default="offline", description="`offline`: the old version is stopped before the new one starts"
    )
    on_incompatible: Literal["fail", "continue"] = Field(
        default="fail",
        description="where the new version would not find the state of the old one: refuse it, and ask a person where "
        "nobody can tell; or `continue`",
    )
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )

    def to_core(self) -> UpgradeSpec:
        return UpgradeSpec(
            unit=self.unit,
            to_unit=self.to_unit,
            mode=self.mode,
            on_incompatible=OnIncompatible(self.on_incompatible),
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
        )


UPGRADE_FORM: Final = verb_form(
    UpgradeData,
    "new workflow: a newer version of an application goes on where the older one stops",
    lambda meta, data: Upgrade(meta, data.to_core()),
)

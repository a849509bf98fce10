"""The data of `savepoint` and `restore_savepoint`."""

from typing import Annotated, Any, Final

from pydantic import Field, PlainValidator, WithJsonSchema

from recoveryd.recovery.wire.parts import PlanHash
from recoveryd.wire.fields import Name
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.workflows.model.commands import RestoreSavepoint, Savepoint
from recoveryd.workflows.model.spec import RestoreSpec, SavepointSpec
from recoveryd.workflows.wire.reprocess import OUTPUTS_SCHEMA, parse_outputs


class SavepointData(CommandData):
    unit: Name = Field(description="a unit of the daemon's config")
    name: Name | None = Field(
        default=None,
        description="of the savepoint; no other one has it; left out: the id of what is begun, as a schedule needs it",
    )
    live: bool = Field(
        default=False,
        description="cut while the application runs; the savepoint says whether offsets and state are of one moment",
    )
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )

    def to_core(self) -> SavepointSpec:
        return SavepointSpec(self.unit, self.name or "", self.live, dry_run=self.dry_run, plan_hash=self.plan_hash)


SAVEPOINT_FORM: Final = verb_form(
    SavepointData,
    "new workflow: a named cut of an application: offsets, the contents of its changelogs, ends of its outputs",
    lambda meta, data: Savepoint(meta, data.to_core()),
)


class RestoreData(CommandData):
    savepoint: Name = Field(description="the name of one that is completed")
    to_unit: Name = Field(description="a unit of the daemon's config, which begins with it; it may be the same")
    outputs: Annotated[Any, PlainValidator(parse_outputs), WithJsonSchema(OUTPUTS_SCHEMA)] = Field(
        default_factory=dict, description="for every output of the unit, as for `reprocess`"
    )
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )

    def to_core(self) -> RestoreSpec:
        return RestoreSpec(self.savepoint, self.to_unit, self.outputs, dry_run=self.dry_run, plan_hash=self.plan_hash)


RESTORE_FORM: Final = verb_form(
    RestoreData,
    "new workflow: a unit begins with the state and the offsets of a savepoint",
    lambda meta, data: RestoreSavepoint(meta, data.to_core()),
)

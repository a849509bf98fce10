"""Parts that the data of several commands have in common."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.spec import Limits
from recoveryd.wire.fields import (
    ByteRate,
    Deadline,
    HeaderName,
    HeaderText,
    Name,
    Rate,
    Runtime,
    Strict,
    Tier,
    Weight,
    at_most,
)
from recoveryd.wire.problems import wrong

MAX_HEADERS: Final = 100

PlanHash = Annotated[str, Field(min_length=1, max_length=128, description="`plan.hash` of the status record")]


class HeadersData(Strict):
    add: Annotated[dict[HeaderName, HeaderText], Field(max_length=MAX_HEADERS), at_most(MAX_HEADERS)] = Field(
        default_factory=dict, description="headers to add"
    )
    drop: Annotated[
        tuple[HeaderName, ...],
        Field(max_length=MAX_HEADERS, strict=False, fail_fast=True),
        at_most(MAX_HEADERS),
    ] = Field(default=(), description="names of headers to leave out")


class JobData(Strict):
    profile: Name = Field(
        default="default", description="a named Spark profile of the daemon's config (master, resources)"
    )


Mode = Literal["unlimited", "fixed", "controller"]
MODE: Final = (
    "`controller` yields to live traffic (rates are its ceiling), `fixed` keeps the given rate, `unlimited` "
    "takes all; left out: "
    "the controller where something is protected, else by whether a rate is given"
)


def check_mode(mode: str | None, has_rate: bool) -> None:
    """Refuse a mode that needs a rate without one, or that must have none with one."""
    if mode == "fixed" and not has_rate:
        raise wrong(
            "has mode fixed, but no rate", "Name max_bytes_per_s or max_records_per_s.", code=Code.MISSING_FIELD
        )
    if mode == "unlimited" and has_rate:
        raise wrong("has mode unlimited and a rate", "Leave the rate out, or choose mode fixed or controller.")


class GuestLimitsData(Strict):
    """The limits of a recovery next to live traffic, whether it copies or only reads."""

    max_bytes_per_s: ByteRate | None = Field(default=None, description="rate of all lanes together")
    max_records_per_s: Rate | None = Field(default=None, description="rate of all lanes together")
    max_runtime: Runtime | None = Field(
        default=None, description="stop after this time, counted from the first attempt"
    )
    deadline: Deadline | None = Field(
        default=None, description="stop at this time (with zone), or after this duration from now"
    )
    mode: Mode | None = Field(default=None, description=MODE)
    weight: Weight = Field(default=1.0, description="share of what the controller has to give, next to others")
    tier: Tier = Field(default=0, description="recoveries of a lower tier are served first")
    override_live_slo: bool = Field(
        default=False, description="start although protected live traffic is over its SLO already"
    )

    @model_validator(mode="after")
    def _mode_fits_the_rates(self) -> Self:
        check_mode(self.mode, self.max_bytes_per_s is not None or self.max_records_per_s is not None)
        return self

    def to_core(self) -> Limits:
        return Limits(
            max_bytes_per_s=self.max_bytes_per_s,
            max_records_per_s=self.max_records_per_s,
            max_runtime_ms=self.max_runtime,
            deadline_ms=self.deadline,
            mode=self.mode,
            weight=self.weight,
            tier=self.tier,
            override_live_slo=self.override_live_slo,
        )

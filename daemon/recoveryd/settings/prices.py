"""Prices for the cost a forecast tells. All 0 by default: then no cost is shown, because nobody knows it."""

from typing import Annotated, Final

from pydantic import Field

from recoveryd.forecast.cost import Prices, Pricing
from recoveryd.settings.kinds import Duration, Section

_HOUR_S: Final = 3_600
_GB: Final = 10**9
_MONTH_S: Final = 30 * 86_400

Price = Annotated[float, Field(ge=0, le=1e9)]


class PricesSection(Section):
    currency: Annotated[str, Field(max_length=8)] = Field(default="", description="Shown behind amounts, such as EUR.")
    executor_per_hour: Price = Field(default=0.0, description="One lane (a task slot of Spark) for an hour.")
    network_per_gb: Price = Field(default=0.0, description="A GB over a link that costs, between zones or out.")
    storage_per_gb_month: Price = Field(default=0.0, description="A GB on brokers' disks for 30 days.")
    slo_per_second: Price = Field(default=0.0, description="A second in which live traffic is over an SLO.")
    cross_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0, description="Part of the traffic that crosses a priced link, 0 to 1."
    )
    keep: Duration = Field(default=30 * 86_400_000, description="How long a copy is kept.")

    def pricing(self) -> Pricing:
        """Per second and per byte, as the formulas want them."""
        prices = Prices(
            executor_s=self.executor_per_hour / _HOUR_S,
            network_byte=self.network_per_gb / _GB,
            storage_byte_s=self.storage_per_gb_month / _GB / _MONTH_S,
            slo_s=self.slo_per_second,
        )
        return Pricing(prices, self.currency, self.cross_share, self.keep / 1000)

"""Prices for the cost in a forecast. All are 0 by default; then no cost is shown, because it is not known."""

from typing import Annotated, Final

from pydantic import Field

from recoveryd.forecast.cost import Prices, Pricing
from recoveryd.settings.kinds import Duration, Section, option

_HOUR_S: Final = 3_600
_GB: Final = 10**9
_MONTH_S: Final = 30 * 86_400

Price = Annotated[float, Field(ge=0, le=1e9)]


class PricesSection(Section):
    currency: str = option("", "Shown behind amounts, such as EUR.", max_length=8)
    executor_per_hour: Price = option(0.0, "One lane (a task slot of Spark) for an hour.")
    network_per_gb: Price = option(0.0, "A GB over a link that costs, between zones or out.")
    storage_per_gb_month: Price = option(0.0, "A GB on brokers' disks for 30 days.")
    slo_per_second: Price = option(0.0, "A second in which live traffic is over an SLO.")
    cross_share: float = option(1.0, "Part of the traffic that crosses a priced link, 0 to 1.", ge=0, le=1)
    keep: Duration = option(30 * 86_400_000, "How long a copy is kept.")

    def pricing(self) -> Pricing:
        """The prices per second and per byte, as the formulas need them."""
        prices = Prices(
            executor_s=self.executor_per_hour / _HOUR_S,
            network_byte=self.network_per_gb / _GB,
            storage_byte_s=self.storage_per_gb_month / _GB / _MONTH_S,
            slo_s=self.slo_per_second,
        )
        return Pricing(prices, self.currency, self.cross_share, self.keep / 1000)

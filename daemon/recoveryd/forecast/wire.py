"""A forecast as JSON values, by the names of the contract: on its own for `recoveryctl forecast -o json`; within records and plans it is written with them."""

from typing import Final

from recoveryd.forecast.view import ForecastView
from recoveryd.wire.nouns import NounForm

FORECAST: Final = NounForm(ForecastView)

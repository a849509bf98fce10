"""A forecast as JSON values, with the names of docs/contract.md, for `recoveryctl forecast -o json`. Records and plans
write theirs with their own forms.
"""

from typing import Final

from recoveryd.forecast.view import ForecastView
from recoveryd.wire.nouns import NounForm

FORECAST: Final = NounForm(ForecastView)

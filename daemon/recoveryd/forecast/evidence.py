"""The data of a forecast on the events topic: plain, bounded, without NaN or infinity."""

from collections.abc import Mapping

from recoveryd.forecast.completion import Forecast
from recoveryd.kernel.numbers import finite


def forecast_evidence(forecast: Forecast) -> Mapping[str, object]:
    """A forecast in numbers; None stands for never."""
    return {
        "outlook": forecast.outlook.value,
        "outlooks": [o.value for o in forecast.outlooks],
        "why": forecast.why,
        "suggestion": forecast.suggestion,
        "eta_seconds": {
            "lo": finite(forecast.seconds_lo, 1),
            "mid": finite(forecast.seconds, 1),
            "hi": finite(forecast.seconds_hi, 1),
        },
        "speed_up": finite(forecast.speed_up),
        "required_rate": finite(forecast.required_rate, 1),
        "extra_share": finite(forecast.extra_share, 5),
        "loss_in_seconds": finite(forecast.loss_in_s, 1),
        "lost_data_seconds": finite(forecast.lost_data_s, 1),
        "partition": forecast.partition,
    }

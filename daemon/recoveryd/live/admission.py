"""Whether a recovery may start next to the present live traffic."""

from recoveryd.live.law.assessment import fresh_values
from recoveryd.live.law.types import ControllerParams, ControllerState


def refuse_start(state: ControllerState, now_ms: int, params: ControllerParams) -> str | None:
    """Why no recovery may start now: a protected signal is over its SLO already, so that nobody could tell what harm
    the replay adds. None = it may start.

    An old sample refuses nothing: the controller then starts at the floor and stays there until new samples come.
    """
    for protection, value in fresh_values(state, now_ms, params):
        if value >= protection.slo_s:
            return f"{protection.name} is at {value:.3g} s before the start, its SLO is {protection.slo_s:g} s"
    return None

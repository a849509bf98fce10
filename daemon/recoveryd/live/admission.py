"""Whether a recovery may start next to the present live traffic."""

from recoveryd.live.law.types import ControllerParams, ControllerState


def refuse_start(
    state: ControllerState, now_ms: int, params: ControllerParams, *, override: bool = False
) -> str | None:
    """Why no recovery may start now: a protected signal is over its SLO already, so that nobody could tell what harm
    the replay adds. None = it may start.

    An old sample refuses nothing: the controller then starts at the floor and stays there until new samples come.
    """
    if override:
        return None
    for protection in params.protections:
        track = state.tracks.get(protection.name)
        if track is None or not track.times_ms or now_ms - track.times_ms[-1] > params.loop_delay_ms:
            continue
        value = track.values[-1]
        if value >= protection.slo_s:
            return f"{protection.name} is at {value:.3g} s before the start, its SLO is {protection.slo_s:g} s"
    return None

"""What a recovery has to be granted so that its busiest lane has what it uses, however little the others use."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.live.budgets import Claimant, throttle
from recoveryd.recovery import throttling
from tests.builders.live_world import MIN, LiveWorld

BUSY = 5_000.0


class Uneven(LiveWorld):
    """Its first lane uses `BUSY`, the other nearly nothing."""

    def _heartbeat(self, *what: Any) -> Any:
        beat = super()._heartbeat(*what)
        return replace(beat, bytes_per_s=BUSY if beat.lane == 0 else 1.0)


def test_it_is_what_the_busiest_lane_uses_by_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[str, Claimant]] = []

    def heard(states: Any, signals: Any, claimants: Any, *more: Any) -> Any:
        asked.append(claimants)
        return throttle(states, signals, claimants, *more)

    monkeypatch.setattr(throttling, "throttle", heard)
    world = Uneven().copying()
    world.live(4)
    [early] = asked[-1].values()
    assert not early.has_settled
    assert early.needed_bytes_per_s >= MIN, "all that it was granted counts until it has settled"
    world.live(70)
    [settled] = asked[-1].values()
    assert settled.has_settled
    assert settled.heard_bytes_per_s == pytest.approx(BUSY, rel=0.01)
    assert settled.needed_bytes_per_s == pytest.approx(2 * BUSY, rel=0.1), "both lanes have as much left"

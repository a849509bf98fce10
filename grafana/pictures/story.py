"""What happens in the pictures: live traffic doubles in the middle of a replay, and halves again once the replay has
given way. When that is depends on what is seen, so that it happens on a busy machine too.
"""

import time
from dataclasses import dataclass, field

from grafana.pictures.real_run import Status
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.live import LiveProducer

_HIGH, _LOW, _BACK = 0.9, 0.4, 0.8  # of the ceiling
_STEADY_S = 10.0  # at a high rate, before the load doubles


@dataclass(slots=True)
class Story:
    """Call `look` a few times a second. `least_s`: the load stays double at least so long. Times are unix seconds, 0
    before they came.
    """

    live: LiveProducer
    records_per_s: float
    ceiling_bytes_per_s: float
    least_s: float
    high_s: float = field(default=0.0, init=False)
    doubled_s: float = field(default=0.0, init=False)
    gave_way_s: float = field(default=0.0, init=False)
    halved_s: float = field(default=0.0, init=False)
    back_s: float = field(default=0.0, init=False)

    def look(self, status: Status) -> None:
        granted = float((status.get("limits") or {}).get("effective_bytes_per_s") or 0.0) / self.ceiling_bytes_per_s
        if status["state"] != "running":
            return
        now_s = time.time()
        if not self.doubled_s:
            self._before(now_s, granted)
        elif not self.halved_s:
            self._double(now_s, granted)
        elif not self.back_s and granted >= _BACK:
            self.back_s = now_s
            print("the rate is back", flush=True)

    def check(self) -> None:
        """Raises `SandboxError` when something of it did not happen."""
        if not self.doubled_s:
            raise SandboxError("the rate never rose: this machine is too busy for pictures")
        if not self.gave_way_s:
            raise SandboxError("the replay did not give way to the doubled load")
        if not self.back_s:
            raise SandboxError("the rate did not come back before the replay's end: this machine is too busy")

    def _before(self, now_s: float, granted: float) -> None:
        if granted < _HIGH:
            self.high_s = 0.0
            return
        self.high_s = self.high_s or now_s
        if now_s - self.high_s >= _STEADY_S:
            self.live.change_rate(2 * self.records_per_s)
            self.doubled_s = now_s
            print("live traffic doubles", flush=True)

    def _double(self, now_s: float, granted: float) -> None:
        if not self.gave_way_s and granted <= _LOW:
            self.gave_way_s = now_s
            print("the replay gave way", flush=True)
        if self.gave_way_s and now_s - self.doubled_s >= self.least_s:
            self.live.change_rate(self.records_per_s)
            self.halved_s = now_s
            print("live traffic halves", flush=True)

"""The pure step alone: events per second through `decide` with fifty running recoveries, compared with decoding the
same events from their bytes.
"""

import time
from collections.abc import Callable, Sequence

from bench.control import command, encoded, lag_signal
from bench.recoveries import NOW_MS, lane_heartbeat, start_state, with_running
from bench.result import Report, Row, Sample
from recoveryd.capabilities import make_codec, make_decider
from recoveryd.kernel.decide import Decider
from recoveryd.kernel.events import Event, Tick
from recoveryd.kernel.state import CoreState
from recoveryd.recovery.params import Params
from recoveryd_jobs.contract import LaneHeartbeat, LanePosition, decode_progress, encode

CODEC = make_codec()
NAME = "decide"
_RUNNING = 50
_EVENTS = 2_000


def measure(repeat: int, *, quick: bool) -> list[Report]:
    params = Params(max_active_recoveries=_RUNNING)
    decider = make_decider(params)
    state = start_state(params)
    for number in range(_RUNNING):
        state = with_running(decider, state, f"r{number:02d}", number)
    count = _EVENTS // 10 if quick else _EVENTS
    rows = (
        _row("lane heartbeat", decider, state, _heartbeats(count), decode_progress, repeat),
        _row("lag signal of 8 partitions", decider, state, _signals(count), _decode_control, repeat),
        _row("throttle, accepted", decider, state, _throttles(count), _decode_control, repeat),
        Row(
            f"tick over {_RUNNING} recoveries", _rate(lambda: _fold(decider, state, [Tick()] * 200, 1_000), 200, repeat)
        ),
    )
    return [Report(f"decide(), one core, {_RUNNING} recoveries running", rows)]


def _row(
    what: str, decider: Decider, state: CoreState, raw: Sequence[bytes], decode: Callable[[bytes], Event], repeat: int
) -> Row:
    events = [decode(value) for value in raw]
    decided = _rate(lambda: _fold(decider, state, events, 1), len(events), repeat)
    decoded = _rate(lambda: [decode(value) for value in raw], len(raw), repeat)
    return Row(what, decided, "decoding it", decoded)


def _rate(work: Callable[[], object], count: int, repeat: int) -> Sample:
    rates = []
    for _ in range(repeat):
        began_s = time.perf_counter()
        work()
        rates.append(count / (time.perf_counter() - began_s))
    return Sample(tuple(rates), "/s")


def _fold(decider: Decider, state: CoreState, events: Sequence[Event], step_ms: int) -> CoreState:
    """Decide one event after the other, each a little later, as in the daemon."""
    for number, event in enumerate(events):
        state = decider.decide(state, event, NOW_MS + number * step_ms).state
    return state


def _heartbeats(count: int) -> list[bytes]:
    found = []
    for number in range(count):
        beat = lane_heartbeat(f"r{number % _RUNNING:02d}", number % 2, number)
        positions = tuple(
            LanePosition(p.partition, p.position, p.stop, p.state, p.copied, p.filtered, p.skipped, p.lost, p.bytes)
            for p in beat.positions
        )
        found.append(encode(LaneHeartbeat(beat.recovery, 1, beat.lane, 1, "copying", True, 1e5, 4e7, positions)))
    return found


def _signals(count: int) -> list[bytes]:
    return [encoded(lag_signal(f"group-{n % 50}", "flights.live", 8, n)) for n in range(count)]


def _throttles(count: int) -> list[bytes]:
    return [
        encoded(command("throttle", f"r{n % _RUNNING:02d}", {"limits": {"max_bytes_per_s": 1e6 + n}}))
        for n in range(count)
    ]


def _decode_control(value: bytes) -> Event:
    """Decode a record as if the broker had stamped it when it was made; the codec compares its times with that."""
    return CODEC.decode_event(0, 0, time.time_ns() // 1_000_000, None, value, ())

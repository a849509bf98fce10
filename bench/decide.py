"""The pure step alone: events per second of processor time through `decide` with fifty running recoveries, compared
with decoding the same events from their bytes.
"""

import gc
import time
from collections.abc import Callable, Sequence

from bench import lag_signals
from bench.control import command, encoded
from bench.recoveries import NOW_MS, lane_heartbeat, start_state, with_running
from bench.result import Report, Row, Sample
from recoveryd.capabilities import make_codec, make_decider
from recoveryd.kernel.decide import Decider
from recoveryd.kernel.events import Event, Tick
from recoveryd.kernel.state import CoreState
from recoveryd.params import params_beside
from recoveryd.recovery.params import Params
from recoveryd_jobs.contract import LaneHeartbeat, LanePosition, decode_progress, encode
from recoveryd_jobs.shared.garbage import collect_in_own_thread

CODEC = make_codec()
NAME = "decide"
_RUNNING = 50
_EVENTS = 2_000
_GROUPS = (50, 1_000)
_SIGNALS_AT_LEAST = 10_000.0
_TICK_MS = 1_000
_SILENCE_MS = 3_600_000  # the recoveries beside signals send no heartbeats


def measure(repeat: int, *, quick: bool) -> list[Report]:
    gc.freeze()
    collect_in_own_thread()  # as in a daemon, where neither an import nor what happens to make objects collects
    params = Params(max_active_recoveries=_RUNNING)
    decider = make_decider(params_beside(params))
    state = _running(decider, params)
    count = _EVENTS // 10 if quick else _EVENTS
    rows = (
        _row("lane heartbeat", decider, state, _heartbeats(count), decode_progress, repeat),
        *(_signal_row(groups, count, repeat) for groups in _GROUPS),
        _row("throttle, accepted", decider, state, _throttles(count), _decode_control, repeat),
        Row(
            f"tick over {_RUNNING} recoveries", _rate(lambda: _fold(decider, state, [Tick()] * 200, 1_000), 200, repeat)
        ),
    )
    note = "processor time; each lag signal is of a protected group, fresh, and makes a verdict"
    return [Report(f"decide(), one core, {_RUNNING} recoveries running", rows, (note,))]


def _running(decider: Decider, params: Params) -> CoreState:
    state = start_state(params)
    for number in range(_RUNNING):
        state = with_running(decider, state, f"r{number:02d}", number)
    return state


def _row(
    what: str, decider: Decider, state: CoreState, raw: Sequence[bytes], decode: Callable[[bytes], Event], repeat: int
) -> Row:
    events = [decode(value) for value in raw]
    decided = _rate(lambda: _fold(decider, state, events, 1), len(events), repeat)
    decoded = _rate(lambda: [decode(value) for value in raw], len(raw), repeat)
    return Row(what, decided, "decoding it", decoded)


def _signal_row(groups: int, count: int, repeat: int) -> Row:
    live = lag_signals.live_params(groups)
    params = Params(max_active_recoveries=_RUNNING, heartbeat_timeout_ms=_SILENCE_MS, live=live)
    decider = make_decider(params_beside(params))
    raw = lag_signals.reports(groups, groups + repeat * count)
    events = [(at_ms, CODEC.decode_event(0, 0, at_ms, None, value, ())) for at_ms, value in raw]
    state = lag_signals.with_full_windows(_running(decider, params), groups)
    state, _ = _judged(decider, state, events[:groups])
    rates = []
    for turn in range(repeat):
        first = groups + turn * count
        state, seconds = _judged(decider, state, events[first : first + count])
        lag_signals.check_judged(state, groups)
        rates.append(count / seconds)
    decoded = _rate(lambda: [CODEC.decode_event(0, 0, at_ms, None, v, ()) for at_ms, v in raw[:count]], count, repeat)
    what = f"lag signal of {lag_signals.PARTITIONS} partitions, {groups:,} protected groups"
    return Row(what, Sample(tuple(rates), "/s"), "decoding it", decoded, at_least=_SIGNALS_AT_LEAST)


def _judged(decider: Decider, state: CoreState, events: Sequence[tuple[int, Event]]) -> tuple[CoreState, float]:
    """The state after the signals, and the seconds that these took; ticks between them are decided, but not counted."""
    seconds, tick_ms = 0.0, events[0][0]
    began_s = time.process_time()
    for at_ms, event in events:
        if at_ms >= tick_ms + _TICK_MS:
            seconds += time.process_time() - began_s
            tick_ms = at_ms
            state = decider.decide(state, Tick(), at_ms).state
            began_s = time.process_time()
        state = decider.decide(state, event, at_ms).state
    return state, seconds + time.process_time() - began_s


def _rate(work: Callable[[], object], count: int, repeat: int) -> Sample:
    rates = []
    for _ in range(repeat):
        began_s = time.process_time()
        work()
        rates.append(count / (time.process_time() - began_s))
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


def _throttles(count: int) -> list[bytes]:
    return [
        encoded(command("throttle", f"r{n % _RUNNING:02d}", {"limits": {"max_bytes_per_s": 1e6 + n}}))
        for n in range(count)
    ]


def _decode_control(value: bytes) -> Event:
    """Decode a record as if the broker had stamped it when it was made; the codec compares its times with that."""
    return CODEC.decode_event(0, 0, time.time_ns() // 1_000_000, None, value, ())

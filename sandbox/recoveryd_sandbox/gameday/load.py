"""Live traffic in processes of its own: an application that writes and reports its latency, and the group that reads it
and has an SLO.

    python -m recoveryd_sandbox.gameday.load producer --bootstrap ... --records-per-s ... --swing-s ... --mute FILE
    python -m recoveryd_sandbox.gameday.load consumer --bootstrap ... --records-per-s ...

Each second the producer reports the p99 of its own acknowledgements to recoveryd, as a health signal on the control
topic; not while FILE exists. It also says it on stdout, for what is measured beside recoveryd. With `--swing-s` it
writes at half its rate and at twice its rate, in turns of so many seconds. The consumer computes for each record as if
it could do no more than its rate with a core of its own, if it is given one. Both run until their parent ends them or
is gone.
"""

import argparse
import json
import os
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Producer

from recoveryd_sandbox import control
from recoveryd_sandbox.gameday.scenario import GROUP, HEALTH_NAME, PARTITIONS, TOPIC
from recoveryd_sandbox.live import LiveProducer, LiveReader

_SIGNAL_S = 1.0


def produce(bootstrap: str, records_per_s: float, swing_s: float, mute: Path) -> None:
    """Write live records at a steady pace, or at one that swings, and a signal per second unless muted."""
    parent = os.getppid()
    signals = Producer({"bootstrap.servers": bootstrap, "client.id": "gameday-signals", "linger.ms": 0, "log_level": 0})
    with LiveProducer(bootstrap, TOPIC, records_per_s, PARTITIONS) as live:
        while os.getppid() == parent:
            began_s = time.time()
            if swing_s:
                live.change_rate(records_per_s * _factor(time.monotonic(), swing_s))
            time.sleep(_SIGNAL_S)
            p99_ms = live.recent_p99_ms()
            if p99_ms is not None:
                print(json.dumps({"at_s": began_s, "p99_s": round(p99_ms / 1000, 6)}), flush=True)
            if p99_ms is not None and not mute.exists():
                signals.produce(control.TOPIC, json.dumps(_signal(p99_ms / 1000, began_s)).encode())
            signals.poll(0)


def _factor(now_s: float, swing_s: float) -> float:
    """Half of the usual rate in one turn, twice of it in the next."""
    return 0.5 if int(now_s / swing_s) % 2 == 0 else 2.0


def _signal(p99_s: float, began_s: float) -> dict[str, object]:
    """`began_s`: when the measured second began; it becomes `sampled_at`."""
    return {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": "//gameday/live-producer",
        "type": "io.recoveryd.signal.health.v1",
        "time": _stamp(time.time()),
        "data": {
            "cluster": "main", "name": HEALTH_NAME, "value": round(p99_s, 6), "unit": "s", "status": "ok",
            "sampled_at": _stamp(began_s),
        },
    }  # fmt: skip


def _stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def consume(bootstrap: str, most_records_per_s: float) -> None:
    """Read from the end on and commit each second, as an application that shows live flights would; 0 = as fast as it
    can.
    """
    parent = os.getppid()
    reader = LiveReader(bootstrap, TOPIC, GROUP, work_s=1 / most_records_per_s if most_records_per_s else 0.0)
    reader.start()
    while os.getppid() == parent:
        time.sleep(_SIGNAL_S)
    reader.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["producer", "consumer"])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--records-per-s", type=float, default=0.0)
    parser.add_argument("--swing-s", type=float, default=0.0)
    parser.add_argument("--mute", type=Path, default=Path("/nonexistent"))
    options = parser.parse_args()
    if options.part == "producer":
        produce(options.bootstrap, options.records_per_s, options.swing_s, options.mute)
    else:
        consume(options.bootstrap, options.records_per_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Small costs that users and attackers would notice: the help of the command line, a record made to be slow to read,
the end of a busy daemon.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Sequence

from bench.bed import Bed
from bench.control import ControlWriter, command, encoded, lag_signal
from bench.daemon_process import Home, leading
from bench.result import Report, Row, Sample
from recoveryd.capabilities import make_codec
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.wire.codec import Unreadable

CODEC = make_codec()
NAME = "small_costs"
_HELP_S, _TROUBLE_S, _STOP_S = 0.5, 2.0, 10.0
_STOP_DEADLINE_S = 60.0
_HELPS = (("--help",), ("replay", "--help"))
_COMMANDS = 300
_TROUBLE = {
    "half a million quotes": b'"' + b'\\"' * 500_000,
    "170,000 nested objects": b'{"a":' * 170_000,
    "a duration of 900 kB": b'{"specversion":"1.0","id":"a","source":"b","type":"io.recoveryd.command.replay.v1",'
    b'"subject":"x","data":{"reason":"r","source":{"topic":"a","from":"'
    + b"1h" * 450_000
    + b'","to":"latest"},"target":{"topic":"b"}}}',
}


def measure(bed: Bed, repeat: int) -> list[Report]:
    plain = encoded(lag_signal("group", "flights.live", 8, 1))
    good = Sample(tuple(_decode_s(plain) for _ in range(repeat)), "s")
    rows = (
        *(Row(f"recoveryctl {' '.join(words)}, processor time", _help(words, repeat),
            at_most=_HELP_S) for words in _HELPS),
        *(
            Row(f"refusing {name}", Sample(tuple(_decode_s(raw) for _ in range(repeat)), "s"), "a lag signal", good,
                at_most=_TROUBLE_S)
            for name, raw in _TROUBLE.items()
        ),
        Row(f"SIGTERM to exit, {_COMMANDS} commands waiting", _stop(bed, repeat), at_most=_STOP_S),
    )  # fmt: skip
    return [Report("Small costs", rows)]


def _help(words: Sequence[str], repeat: int) -> Sample:
    program = [sys.executable, "-c", "from recoveryd.cli import main; main()", *words]
    found = []
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(program, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Sample(tuple(found), "s")


def _decode_s(raw: bytes) -> float:
    began_s = time.process_time()
    outcome = CODEC.decode(None, raw, (), time.time_ns() // 1_000_000, 1)
    took_s = time.process_time() - began_s
    if len(raw) > 100_000 and not isinstance(outcome, Unreadable | RefusedCommand):
        raise RuntimeError(f"a record made to be refused was read as {type(outcome).__name__}")
    return took_s


def _stop(bed: Bed, repeat: int) -> Sample:
    found = []
    for number in range(repeat):
        with leading(Home(bed, f"stop{number}")) as daemon:
            writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
            writer.send([encoded(command("pause", f"nothing-{n}", {})) for n in range(_COMMANDS)])
            began_s = time.monotonic()
            code = daemon.terminate(_STOP_DEADLINE_S)
            took_s = time.monotonic() - began_s
        if code != 0:
            raise RuntimeError(f"the daemon left with {code}")
        found.append(took_s)
    return Sample(tuple(found), "s")

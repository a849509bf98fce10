"""`python -m bench [names...]`: runs measurements and prints their tables, machine line first.

Exit code 0 whatever the numbers say, 1 with `--strict` when a target is missed, 2 for bad usage. Everything takes
an hour or so on two cores. `--write-docs` with names renews the sections of those measurements and leaves
the rest of the page as it is.
"""

import argparse
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import (
    canary,
    chunks,
    daemon_rate,
    daemon_size,
    decide,
    heartbeats,
    lane_clients,
    large_units,
    ledger,
    machine,
    many_small,
    pausing,
    policies,
    polling,
    proof,
    replay,
    report,
    resets,
    savepoints,
    small_costs,
    start,
    throttle,
    unit_plans,
    workflow_steps,
)
from bench.application import Application
from bench.bed import Bed
from bench.result import FAIL, Report

_DOCS = Path(__file__).resolve().parents[1] / "docs" / "performance.md"


class _Surroundings:
    """Broker and warm Spark session, each started when a measurement first asks for it."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._bed: Bed | None = None
        self._application: Application | None = None

    @property
    def bed(self) -> Bed:
        if self._bed is None:
            self._bed = self._stack.enter_context(Bed())
        return self._bed

    @property
    def application(self) -> Application:
        if self._application is None:
            self._application = self._stack.enter_context(Application(self.bed))
        return self._application


# Measurements without a Spark session in this process come first: even an idle JVM costs a little.
_MEASUREMENTS: dict[str, Callable[[_Surroundings, int, bool], list[Report]]] = {
    policies.NAME: lambda _, repeat, __: policies.measure(repeat),
    decide.NAME: lambda _, repeat, quick: decide.measure(repeat, quick=quick),
    unit_plans.NAME: lambda _, repeat, quick: unit_plans.measure(repeat, quick=quick),
    polling.NAME: lambda s, repeat, quick: polling.measure(s.bed, min(repeat, 3), quick=quick),
    small_costs.NAME: lambda s, repeat, _: small_costs.measure(s.bed, repeat),
    start.NAME: lambda s, repeat, _: start.measure(s.bed, repeat),
    many_small.NAME: lambda s, _, quick: many_small.measure(s.bed, quick=quick),
    daemon_rate.NAME: lambda s, repeat, quick: daemon_rate.measure(s.bed, repeat, quick=quick),
    daemon_size.NAME: lambda s, repeat, quick: daemon_size.measure(s.bed, repeat, quick=quick),
    canary.NAME: lambda s, repeat, quick: canary.measure(s.bed, min(repeat, 3), quick=quick),
    heartbeats.NAME: lambda s, repeat, quick: heartbeats.measure(s.bed, repeat, quick=quick),
    lane_clients.NAME: lambda *_: lane_clients.measure(),
    pausing.NAME: lambda s, repeat, quick: pausing.measure(s.bed, repeat, quick=quick),
    ledger.NAME: lambda s, repeat, quick: ledger.measure(s.bed, repeat, quick=quick),
    resets.NAME: lambda s, repeat, quick: resets.measure(s.bed, min(repeat, 3), quick=quick),
    large_units.NAME: lambda s, repeat, quick: large_units.measure(s.bed, min(repeat, 3), quick=quick),
    workflow_steps.NAME: lambda s, repeat, quick: workflow_steps.measure(s.bed, repeat, quick=quick),
    savepoints.NAME: lambda s, repeat, quick: savepoints.measure(s.bed, min(repeat, 3), quick=quick),
    throttle.NAME: lambda s, _, quick: throttle.measure(s.bed, quick=quick),
    replay.NAME: lambda s, repeat, quick: replay.measure(s.bed, s.application, repeat, quick=quick),
    proof.NAME: lambda s, repeat, quick: proof.measure(s.bed, s.application, repeat, quick=quick),
    chunks.NAME: lambda s, repeat, _: chunks.measure(s.bed, s.application, repeat),
}


def main(argv: Sequence[str]) -> int:
    args = _parse(argv)
    repeat = args.repeat or (1 if args.quick else 5)
    line, load = machine.machine_line(), machine.load_line()
    print(f"{line}\n{load}; medians of {repeat}\n", flush=True)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    reports: list[Report] = []
    with contextlib.ExitStack() as stack, _quiet_libraries():
        surroundings = _Surroundings(stack)
        for name in args.names or _MEASUREMENTS:
            began_s = time.monotonic()
            for found in _MEASUREMENTS[name](surroundings, repeat, args.quick):
                reports.append(found)
                report.show(found)
            print(f"  {name}: {time.monotonic() - began_s:.0f} s\n", flush=True)
    if args.write_docs:
        before = _DOCS.read_text(encoding="utf-8") if _DOCS.exists() and args.names else ""
        _DOCS.write_text(report.page(before, reports, line, load), encoding="utf-8")
    missed = [row for found in reports for row in found.rows if row.mark == FAIL]
    print(f"{len(missed)} targets missed" if missed else "all targets met")
    return 1 if missed and args.strict else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measures recoveryd, each number next to a comparison."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"what to measure (default all): {', '.join(_MEASUREMENTS)}"
    )
    parser.add_argument("--repeat", type=_positive, help="repetitions (default 5, with --quick 1)")
    parser.add_argument(
        "--quick", action="store_true", help="small data, to see that it works; targets are for the real size"
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument(
        "--write-docs", action="store_true", help="write docs/performance.md, or renew the sections of the names given"
    )
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in _MEASUREMENTS]
    if unknown:
        parser.error(f"there is no measurement {unknown[0]!r}; there are {', '.join(_MEASUREMENTS)}")
    return args


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("1 or more")
    return value


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Silence what Spark's JVM and librdkafka write to stderr, so that the tables stay readable. Our own errors are
    raised, not printed.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`recoveryd`: the daemon's command line. Reads the config, sets up logging, runs, and ends with an exit code that a
supervisor understands.

systemd, containers and the demo start it; people use `recoveryctl` (`recoveryd.cli`).
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import NoReturn

from recoveryd.errors import ConfigProblem

EXIT_USAGE, EXIT_CONFIG = 2, 78


def main(arguments: list[str] | None = None) -> NoReturn:
    """Entry point; never returns."""
    # First of all: a reload that comes while the daemon starts would end it. It is made good for once it can be.
    hangups: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _frame: hangups.append(number))
    options = _parser().parse_args(arguments)
    code = run(options, lambda: bool(hangups))
    # Worker threads may still wait inside a client library; nothing is lost with them, and they must not delay the
    # exit.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(options: argparse.Namespace, was_hung_up: Callable[[], bool] = lambda: False) -> int:
    """Load the config and serve. `was_hung_up`: whether SIGHUP has come already. Returns the exit code."""
    try:
        once_for_s = _once_for_s(options)
    except ValueError as problem:
        print(f"recoveryd: {problem}", file=sys.stderr)  # noqa: T201  (no logging yet)
        return EXIT_USAGE

    from recoveryd_jobs.shared.garbage import uncollected  # noqa: PLC0415  (help and version stay fast)

    # What is imported is no garbage: nobody looks for some meanwhile, and it is not walked again later.
    with uncollected():
        from recoveryd import log  # noqa: PLC0415
        from recoveryd.app.serve import serve  # noqa: PLC0415
        from recoveryd.settings import load  # noqa: PLC0415
    gc.freeze()

    flags = {key: (flag, value) for key, flag, value in _flags(options) if value is not None}
    read = partial(load, options.config, options.bootstrap, flags=flags)
    try:
        settings = read()
    except ConfigProblem as problem:
        print(f"recoveryd: {problem}\n  {problem.hint}", file=sys.stderr)  # noqa: T201  (no logging yet)
        return EXIT_CONFIG

    log.configure(settings.values.log.format, settings.values.log.level)
    # Not asyncio.run: its end waits for every worker thread, and one may be in a client call that no broker answers.
    return asyncio.new_event_loop().run_until_complete(serve(settings, read, once_for_s, was_hung_up))


def _flags(options: argparse.Namespace) -> list[tuple[str, str, str | None]]:
    return [
        ("http.listen", "--http", options.http),
        ("log.format", "--log-format", options.log_format),
        ("log.level", "--log-level", options.log_level),
        ("work_dir", "--work-dir", options.work_dir),
    ]


def _once_for_s(options: argparse.Namespace) -> float | None:
    """How long one-shot mode works; None = it is not wanted. Raises ValueError."""
    if not options.once:
        if options.max_runtime is not None:
            raise ValueError("--max-runtime is the time of --once; give both")
        return None
    if options.max_runtime is None:
        return float("inf")
    from recoveryd.kernel.times import TimeProblem, parse_duration_ms  # noqa: PLC0415

    try:
        runtime_ms = parse_duration_ms(options.max_runtime)
    except TimeProblem as problem:
        raise ValueError(f"--max-runtime `{options.max_runtime}` {problem}; write 4m or 90s") from None
    if runtime_ms <= 0:
        raise ValueError("--max-runtime must be longer than zero")
    return runtime_ms / 1000


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recoveryd", description="The recovery daemon for Apache Kafka.")
    parser.add_argument("--version", action="version", version=f"recoveryd {version('recoveryd')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="run")
    running = commands.add_parser("run", help="run the daemon in the foreground")
    running.add_argument("--config", metavar="FILE", help="YAML config (or RECOVERYD_CONFIG)")
    running.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="brokers of the cluster main (or RECOVERYD_BOOTSTRAP_SERVERS)"
    )
    running.add_argument("--http", metavar="HOST:PORT", help="address of health, metrics and API")
    running.add_argument("--log-format", choices=("auto", "console", "json"), help="form of the log on stderr")
    running.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="least level of the log on stderr"
    )
    running.add_argument(
        "--work-dir", metavar="DIR", help="folder for logs and job files of attempts; it holds no state"
    )
    running.add_argument(
        "--once",
        action="store_true",
        help="end when there is nothing to do: exit code 0 when nothing is left, 75 when something is",
    )
    running.add_argument(
        "--max-runtime", metavar="DURATION", help="with --once: begin to end after this time, such as 4m"
    )
    return parser


if __name__ == "__main__":
    main()

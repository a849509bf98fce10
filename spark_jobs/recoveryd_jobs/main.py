"""Entry point of a Spark application of recoveryd: `--spec FILE` runs one attempt, `--spare DIR` gets ready for one.

A spare driver starts its session and workers, writes `DIR/ready`, and waits for `DIR/spec.json`, which must be renamed
into place once it is complete. It ends by itself when the process given by `--parent` is gone before a spec came. The
spec is the only input: secrets are in that file and nowhere else.

Exit codes: 0 told to leave, 1 failed, 2 bad usage or spec, 3 a newer attempt took over, 4 no directive for a long time
or never used, 143 SIGTERM.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the folder of this file must not shadow other packages' modules
    _here = str(Path(__file__).resolve().parent)
    sys.path[:] = [p for p in sys.path if str(Path(p or ".").resolve()) != _here]
    sys.path.insert(0, str(Path(_here).parent))

import argparse
import contextlib
import logging
import os
import signal
import threading
import time
from types import FrameType, ModuleType
from typing import Any

from recoveryd_jobs.contract import ContractError, JobSpec, decode
from recoveryd_jobs.driver import kinds
from recoveryd_jobs.driver.driver import EXIT_FORGOTTEN, Driver
from recoveryd_jobs.driver.session import start_session, warm_workers
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.shared.garbage import collect_in_own_thread

KINDS: dict[str, ModuleType] = {"replay": kinds, "verification": kinds}
EXIT_USAGE = 2
EXIT_TERMINATED = 143
_LOOK_S = 0.05
_STOP_TIMEOUT_S = 10.0

_log = logging.getLogger("recoveryd.driver")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="recoveryd_jobs.main", description="Runs one attempt of one recovery.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--spec", type=Path, help="the job spec, a JSON file")
    which.add_argument("--spare", type=Path, help="wait in this folder for a spec.json")
    parser.add_argument("--parent", type=int, help="a spare driver ends when this process is gone")
    parser.add_argument("--slots", type=int, default=1, help="lanes a spare driver gets ready for")
    args = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, _leave_now)
    collect_in_own_thread()
    if args.spec is not None:
        return run_attempt(args.spec, None)
    context = start_session(args.slots)
    warm_workers(context)
    spec_file = await_spec(args.spare, args.parent)
    if spec_file is None:
        _stop(context)
        return EXIT_FORGOTTEN
    return run_attempt(spec_file, context)


def run_attempt(spec_file: Path, context: Any | None) -> int:
    """Run the attempt of `spec_file` on `context`, or on a new session."""
    try:
        spec = decode(JobSpec, spec_file.read_bytes())
    except (OSError, ContractError) as error:
        _log.error("no usable spec: %s", error)
        return EXIT_USAGE
    driver = Driver(spec)
    try:
        kind = KINDS.get(spec.kind)
        if kind is None:
            return driver.fail(JobError("internal", f"No job kind {spec.kind}; there are {', '.join(KINDS)}."))
        if context is None:
            context = start_session(len(spec.lanes))
        return driver.run(context, kind)
    except JobError as error:
        return driver.fail(error)
    except Exception as error:  # noqa: BLE001  (the edge of the process: a bug must reach the daemon as an error code)
        _log.exception("the driver failed")
        return driver.fail(JobError("internal", f"{type(error).__name__}: {error}"))
    finally:
        driver.close()
        if context is not None:
            _stop(context)
        driver.closed()


def await_spec(folder: Path, parent: int | None) -> Path | None:
    """The spec file once it is there; None when the parent process is gone first."""
    (folder / "ready").write_text(str(os.getpid()))
    spec_file = folder / "spec.json"
    while not spec_file.exists():
        if parent is not None and not _is_alive(parent):
            return None
        time.sleep(_LOOK_S)
    return spec_file


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _stop(context: Any) -> None:
    """Stop Spark in the background, because it may hang; what remains ends with this process."""
    stopper = threading.Thread(target=_stop_quietly, args=(context,), daemon=True)
    stopper.start()
    stopper.join(_STOP_TIMEOUT_S)


def _stop_quietly(context: Any) -> None:
    with contextlib.suppress(Exception):
        context.stop()


def _leave_now(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM: leave at once. An open chunk is ended by the next attempt or by the broker."""
    os._exit(EXIT_TERMINATED)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # threads of the Kafka client or of Spark must not keep a finished driver alive

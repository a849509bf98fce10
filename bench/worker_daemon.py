"""The product's worker daemon, except that it waits for its workers, so that the system adds their processor time to
its own.

pyspark makes the system discard ended workers (SIGCHLD ignored), and the time of such children is added to no process:
ended tasks would seem to cost nothing.
"""

import contextlib
import os
import signal

from pyspark.daemon import manager

import recoveryd_jobs.lane.life
import recoveryd_jobs.verify.tasks  # noqa: F401


def _take_ended(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _wait_for_workers() -> None:
    """Called after each fork: pyspark sets its handler once, at its start, and a worker sets the default for itself."""
    signal.signal(signal.SIGCHLD, _take_ended)


if __name__ == "__main__":
    os.register_at_fork(after_in_parent=_wait_for_workers)
    manager()

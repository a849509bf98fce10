"""Spark's classes, parsed and verified once and mapped by every later JVM: a session is up in two thirds of the time,
for half of the processor's.

Java calls this class data sharing. The archive lies beside the installed Spark and is named for the Java it was made
with. It is optional: without an archive, or with one that does not fit, the JVM starts as usual. `python -m
recoveryd.adapters.spark.class_archive` makes it, by letting a spare driver come up and leave; it needs no broker.
Nothing of this runs in the daemon.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recoveryd.adapters.spark.command import (
    SparkProfile,
    class_archive,
    submit_command,
    submit_environment,
)

_READY_DEADLINE_S = 90.0
_EXIT_DEADLINE_S = 60.0
_LOOK_S = 0.1


def main() -> int:
    """0 when there is an archive, new or old; 1 with a sentence on stderr when none could be made, which costs time but
    nothing else.
    """
    archive = class_archive()
    if archive is None or archive.exists():
        return 0 if archive is not None else _say("there is no Java to make it with")
    if not os.access(archive.parent, os.W_OK):
        return _say(f"{archive.parent} is not ours to write to")
    with tempfile.TemporaryDirectory(prefix="recoveryd-") as name:
        folder = Path(name)
        made = folder / "archive.jsa"
        problem = _run_spare(folder, made)
        if problem or not made.exists():
            return _say(problem or "Java made none")
        _put(made, archive)
    return 0


def _run_spare(folder: Path, archive: Path) -> str:
    """Let a spare driver come up, which loads what any attempt loads, and end. What went wrong, or ""."""
    conf = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"}
    parent = subprocess.Popen(["sleep", "600"])  # a spare leaves when this one is gone
    job = ["--spare", str(folder), "--parent", str(parent.pid)]
    command = submit_command(SparkProfile("local[1]", conf=conf), "class-archive", folder, job)
    try:
        with (folder / "log").open("wb") as out:
            spare = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=submit_environment(), cwd=folder
            )
        give_up_s = time.monotonic() + _READY_DEADLINE_S
        while not (folder / "ready").exists() and spare.poll() is None and time.monotonic() < give_up_s:
            time.sleep(_LOOK_S)
        is_ready = (folder / "ready").exists()
        parent.kill()
        parent.wait(_EXIT_DEADLINE_S)
        spare.wait(_EXIT_DEADLINE_S)
    except subprocess.TimeoutExpired:
        spare.kill()
        spare.wait(_EXIT_DEADLINE_S)
        return "the spare driver did not end"
    finally:
        if parent.poll() is None:
            parent.kill()
            parent.wait(_EXIT_DEADLINE_S)
    return "" if is_ready else "the spare driver did not come up"


def _put(made: Path, archive: Path) -> None:
    """Whole or not at all: a JVM that maps half of an archive breaks."""
    part = archive.with_suffix(f".{os.getpid()}.part")
    with made.open("rb") as source, part.open("wb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    part.replace(archive)


def _say(why: str) -> int:
    sys.stderr.write(f"recoveryd: no archive of Spark's classes, attempts start a little slower: {why}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

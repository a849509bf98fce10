"""What `recoveryctl doctor` looks at on this machine: Java, Spark, the work folder, the daemon's health page.

Each check returns what it found and, when it is not good, the next step; none raises. What needs a broker is in
`recoveryd.cli.verbs.doctor_clusters`, what looks at Spark masters in `recoveryd.cli.verbs.doctor_spark`.
"""

import importlib.util
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

from recoveryd.cli.send.connect import DAEMON_HINT, Connection
from recoveryd.cli.send.http_asking import UNANSWERED, ask, way_of
from recoveryd.cli.send.http_reader import check_url
from recoveryd.cli.verbs.doctor_checks import CheckPatience, CheckResult, bad, doubtful, failed, good, skipped
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.java import find_java

_SPARK_TIMEOUT_S = 180.0
_WANTED_FREE_GB = 1.0
_PAGE_MOST = 1024 * 1024
_CLOCK_TOLERANCE_S = 3.0  # a page tells whole seconds
_NEED_THE_CONFIG = (
    "work_dir", "profiles", "executors", "brokers", "features", "ACLs", "topics", "write", "command", "clock", "daemon",
    "clock of the daemon",
)  # fmt: skip


def run_checks(
    connection: Connection,
    patience: CheckPatience,
    *,
    deep: bool,
    source: str | None = None,
    target: str | None = None,
) -> Iterator[CheckResult]:
    """Every check, in the order in which things fail. `source` and `target`: topics of a planned replay,
    [CLUSTER:]TOPIC.
    """
    yield check_java()
    yield check_spark(deep=deep)
    try:
        settings = connection.settings
    except RecoverydError as error:
        yield failed("config", error)
        yield from (skipped(name, "needs the config", "See above.") for name in _NEED_THE_CONFIG)
        return
    yield good("config", connection.origin)
    yield check_work_dir(settings.work_dir)
    from recoveryd.cli.verbs.doctor_spark import check_profiles  # noqa: PLC0415

    yield from check_profiles(settings, deep=deep)
    from recoveryd.cli.verbs.doctor_clusters import check_clusters  # noqa: PLC0415

    yield from check_clusters(connection, patience, deep=deep, source=source, target=target)
    if connection.knows_daemon:
        yield from check_daemon(check_url(connection.daemon_url), patience.page_s)
        return
    yield skipped("daemon", "the context does not say where it answers", DAEMON_HINT)
    yield skipped("clock of the daemon", "needs the daemon", "See above.")


def check_java() -> CheckResult:
    try:
        return good("java", str(find_java()))
    except SandboxError as error:
        return bad("java", error.message, error.hint or Code.JAVA_MISSING.next_step)


def check_spark(*, deep: bool) -> CheckResult:
    """PySpark is installed; `deep` also starts its `spark-submit`, which needs some seconds."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return bad("spark", "PySpark is not installed.", "Install it: pip install 'pyspark>=4.2,<5'.")
    from importlib.metadata import version  # noqa: PLC0415

    submit = Path(spec.origin).parent / "bin" / "spark-submit"
    if not deep:
        return good("spark", f"PySpark {version('pyspark')}")
    try:
        done = subprocess.run(
            [submit, "--version"], capture_output=True, text=True, timeout=_SPARK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return bad("spark", f"spark-submit does not run: {error}.", "Check Java first, then reinstall PySpark.")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return bad("spark", f"spark-submit ended with {done.returncode}: {last}", "Check the Java it uses.")
    return good("spark", f"PySpark {version('pyspark')}, spark-submit runs")


def check_work_dir(folder: Path) -> CheckResult:
    """Can files be written where logs and specs of attempts go? The daemon makes the folder; here only what is there is
    tried.
    """
    name = "work_dir"
    try:
        nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    except OSError as error:
        return bad(name, f"{folder} cannot be read: {error.strerror}.", "Correct its owner, or `work_dir`.")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
        room = os.statvfs(nearest)
    except OSError as error:
        return bad(name, f"{nearest} cannot be written: {error.strerror}.", _how_to_write(nearest))
    free_gb = room.f_bavail * room.f_frsize / 1e9
    if free_gb < _WANTED_FREE_GB:
        return doubtful(name, f"{folder} has only {free_gb:.1f} GB left.", "Spark spills there; make room.")
    return good(name, f"{folder}, {free_gb:.0f} GB free")


def _how_to_write(folder: Path) -> str:
    owner = folder.stat().st_uid
    mend = "Correct its owner, or `work_dir`."
    return mend if owner == os.geteuid() else f"If it is the daemon's, run this as its user ({owner}). {mend}"


def check_daemon(url: str, timeout_s: float = CheckPatience().page_s) -> Iterator[CheckResult]:
    """Is a daemon ready, as its own health page says, and does its clock agree with ours?"""
    name, page, clock = "daemon", f"{url.rstrip('/')}/readyz", "clock of the daemon"
    place = f"{url}{way_of(url)}"
    try:
        answer = ask(page, timeout_s, _PAGE_MOST)
    except UNANSWERED as error:  # also what answers there is no daemon
        step = "Start it with `recoveryd run`; if it runs elsewhere, give --http URL."
        yield doubtful(name, f"no answer at {place}: {getattr(error, 'reason', error)}", step)
        yield skipped(clock, "no daemon answers", "See above.")
        return
    if not _is_of_daemon(answer.body):
        step = "Look who answers there: check --http, and `no_proxy` where a proxy is named."
        yield doubtful(name, f"no daemon at {place}, which answered {answer.status}: {_short(answer.body)}", step)
        yield skipped(clock, "no daemon answers", "See above.")
        return
    if answer.status != 200:
        step = "A standby takes over by itself; otherwise read the daemon's log."
        yield doubtful(name, f"not ready at {place} ({answer.status}): {_short(answer.body)}", step)
    else:
        yield good(name, f"ready at {place}: {_short(answer.body)}")
    yield judge_daemon_clock(answer.date, time.time())


def judge_daemon_clock(date: str | None, now_s: float) -> CheckResult:
    """`date` as in the header of an answer."""
    name = "clock of the daemon"
    try:
        ahead_s = now_s - parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return skipped(name, "what answers there does not tell its time", "Check --http.")
    if abs(ahead_s) > _CLOCK_TOLERANCE_S:
        direction = "ahead of" if ahead_s > 0 else "behind"
        step = "Set both clocks by NTP: deadlines and times back from now are judged by the daemon and the brokers."
        return doubtful(name, f"ours is {abs(ahead_s):.0f} s {direction} it", step)
    return good(name, "agrees with ours")


def _is_of_daemon(body: bytes) -> bool:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "ready" in document


def _short(body: bytes) -> str:
    """The body of a health page on one line."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace").strip().splitlines()[0][:120] if body.strip() else "no text"
    if isinstance(document, dict):
        return ", ".join(f"{name} {value}" for name, value in document.items())[:160]
    return str(document)[:120]

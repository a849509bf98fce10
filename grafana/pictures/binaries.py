"""Where `prometheus` and `promtool` come from: the PATH, else Debian's package, unpacked into the cache.

Unpacked, not installed: no service is started, no user is created, and root is needed only where apt has no package
lists yet. `RECOVERYD_PROMETHEUS` says what is allowed. Unset: fetch it where that works. `1`: it must be available,
otherwise fail. `0`: do without.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recoveryd_sandbox.jars import default_cache_dir
from recoveryd_sandbox.locks import locked

SWITCH = "RECOVERYD_PROMETHEUS"
_PACKAGE = "prometheus"
_APT_TIMEOUT_S = 120.0
_LOCK_TIMEOUT_S = 300.0


class Unavailable(Exception):  # noqa: N818  (not an error of ours: a reason, told to people)
    """A program is not available here; `str(error)` is the reason."""


@dataclass(frozen=True, slots=True)
class Binaries:
    prometheus: Path
    promtool: Path


def is_required() -> bool:
    return os.environ.get(SWITCH, "") == "1"


def find_prometheus() -> Binaries:
    """Raises `Unavailable` with the reason. Fetches 19 MB at most once; takes a second."""
    if os.environ.get(SWITCH, "") == "0":
        raise Unavailable(f"{SWITCH}=0 switches Prometheus off")
    found = shutil.which("prometheus"), shutil.which("promtool")
    if found[0] and found[1]:
        return Binaries(Path(found[0]), Path(found[1]))
    cache = default_cache_dir()
    folder = cache / "debian-prometheus"
    if not (folder / "usr" / "bin" / "prometheus").exists():
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache / "debian-prometheus.lock", _LOCK_TIMEOUT_S):
            if not folder.exists():
                _unpack_package(folder)
    return Binaries(folder / "usr" / "bin" / "prometheus", folder / "usr" / "bin" / "promtool")


def _unpack_package(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unavailable("prometheus and promtool are not on the PATH, and there is no apt to fetch them with")
    with tempfile.TemporaryDirectory(prefix="recoveryd-prometheus-") as name:
        work = Path(name)
        told = _run("apt-get", "download", _PACKAGE, cwd=work)
        if told and os.geteuid() == 0:  # a fresh machine has no package lists yet
            told = _run("apt-get", "-qq", "update", cwd=work) or _run("apt-get", "download", _PACKAGE, cwd=work)
        packages = sorted(work.glob("*.deb"))
        if told or not packages:
            raise Unavailable(f"prometheus is not on the PATH, and apt could not fetch it: {told[-300:]}")
        unpacked = folder.with_name(f"{folder.name}.{os.getpid()}")
        told = _run("dpkg-deb", "--extract", str(packages[0]), str(unpacked), cwd=work)
        if told:
            raise Unavailable(f"Debian's package of prometheus could not be unpacked: {told[-300:]}")
        unpacked.rename(folder)


def _run(*command: str, cwd: Path) -> str:
    """The error text, "" if the command succeeded."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_APT_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{' '.join(command)} took over {_APT_TIMEOUT_S:.0f} s"
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"

"""A base image without a registry: a Debian made with debootstrap, with Python, a JRE and an init, and a builder on
top.

The base is what `python:3.11-slim-bookworm` plus the packages of the Dockerfile would be, so that nothing in a build
needs the network. It is kept as a tarball in the cache folder; delete the file to have it made anew. The builder adds
the wheels the host's pip brings, in the versions the tests run with: pip in the build needs no index and no settings.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from recoveryd_sandbox.jars import default_cache_dir
from tests.containers import registry
from tests.containers.docker_engine import EngineFailed, EngineUnavailable

BASE_TAG = "recoveryd-test/base:local"
BUILDER_TAG = "recoveryd-test/builder:local"

_SUITE = "bookworm"
_PYTHON = (3, 11)  # the suite's own version, which the wheels must fit
_MIRROR = "http://deb.debian.org/debian"
_PACKAGES = ("ca-certificates", "openjdk-17-jre-headless", "python3", "tini")
_SOURCES = f"""deb {_MIRROR} {_SUITE} main
deb {_MIRROR} {_SUITE}-updates main
deb http://deb.debian.org/debian-security {_SUITE}-security main
"""
# Files left over from the build or copied from the host: its resolver, its name, and settings that may name a private
# mirror.
_NOT_WANTED = (
    "var/lib/apt/lists", "var/cache/apt", "var/log", "usr/share/man", "usr/share/locale", "etc/pip.conf", "etc/apt/apt.conf",
)  # fmt: skip
_EMPTIED = ("etc/hostname", "etc/resolv.conf")
_DEBOOTSTRAP_TIMEOUT_S = 420.0
_PIP_TIMEOUT_S = 600.0
_TAR_TIMEOUT_S = 180.0


def import_base() -> str:
    """The tag of the base on the present engine. Raises `EngineUnavailable` if it can neither be found nor made."""
    tarball = _tarball()
    if not tarball.exists():
        _make(tarball)
    _run(
        ["docker", "import", "--change", 'CMD ["python3"]', "--change", "ENV LANG=C.UTF-8", str(tarball), BASE_TAG],
        _TAR_TIMEOUT_S,
    )
    return BASE_TAG


def build_builder(checkout: Path, recipe: Path) -> str:
    """The base with pip and all wheels of the project in `checkout`; `recipe` is the folder of its Dockerfile."""
    if sys.version_info[:2] != _PYTHON:
        raise EngineUnavailable(f"the wheels for the local base need Python {_PYTHON[0]}.{_PYTHON[1]} on the host")
    with tempfile.TemporaryDirectory(prefix="recoveryd-builder-") as folder:
        context = Path(folder)
        shutil.copy(recipe / "Dockerfile", context)
        _fetch_wheels(checkout, context / "wheels")
        return registry.build(context, BUILDER_TAG, {"BASE": BASE_TAG})


def _tarball() -> Path:
    recipe = hashlib.sha256(repr((_SUITE, _PACKAGES, _SOURCES, _NOT_WANTED, _EMPTIED)).encode()).hexdigest()[:8]
    return default_cache_dir() / "containers" / f"base-{_SUITE}-{platform.machine()}-{recipe}.tar"


def _make(tarball: Path) -> None:
    """Fills a temporary folder and packs it; the tarball gets its name only when it is complete."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise EngineUnavailable("no image can be pulled, and making a base image needs root and debootstrap")
    tarball.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="recoveryd-base-") as folder:
        root = Path(folder) / "root"
        _run(
            ["debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, str(root), _MIRROR],
            _DEBOOTSTRAP_TIMEOUT_S,
        )
        _clean(root)
        unfinished = tarball.with_suffix(f".{os.getpid()}")
        _run(
            ["tar", "--numeric-owner", "--one-file-system", "-C", str(root), "-cf", str(unfinished), "."],
            _TAR_TIMEOUT_S,
        )
        unfinished.rename(tarball)


def _clean(root: Path) -> None:
    for name in _NOT_WANTED:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
            path.mkdir()
        else:
            path.unlink(missing_ok=True)
    for name in _EMPTIED:
        (root / name).write_text("")
    for settings in (root / "etc/apt/apt.conf.d").glob("*proxy*"):
        settings.unlink()
    (root / "etc/apt/sources.list").write_text(_SOURCES)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)


def _fetch_wheels(checkout: Path, target: Path) -> None:
    """Wheels of the run-time dependencies in the pinned versions, of what builds the project, and of pip itself."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"], "pip"]
    pinned = str(checkout / "constraints.txt")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(target), "--constraint", pinned]
    _run([*command, *wanted], _PIP_TIMEOUT_S)


def _run(command: list[str], timeout_s: float) -> None:
    """Raises `EngineFailed` with the last output of the command."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise EngineFailed(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr).strip()[-2000:]}")

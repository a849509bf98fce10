"""The wheel alone, beside python-daemon, in an environment without the checkout: sandbox, daemon and a replay run from
its scripts.

Its dependencies are those that the tests run with, linked into an environment of its own; of this project only what the
wheel brings is in there.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from recoveryd_sandbox.jars import default_cache_dir
from recoveryd_sandbox.ports import free_ports
from tests.e2e.test_readme import AWAIT_LEADER
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

ROOT = Path(__file__).resolve().parents[2]
OURS = {"recoveryd", "recoveryd_jobs", "recoveryd_sandbox"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the repository's files, so that nothing is left in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("daemon", "spark_jobs", "sandbox"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(copy / "dist"), str(copy)])
    [made] = (copy / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `recoveryd` and `recoveryctl` of an environment that has the wheel and python-daemon."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(home), "platbase": str(home)}))
    for found in (file for folder in sys.path if folder.endswith("site-packages") for file in Path(folder).iterdir()):
        if "recoveryd" not in found.name and found.suffix != ".pth" and not (site / found.name).exists():
            (site / found.name).symlink_to(found)
    python = str(home / "bin" / "python")
    run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", str(wheel)])
    run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "python-daemon"])
    return home / "bin"


def run(command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patient_s(300), check=False, env=environment, cwd=folder
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_brings_names_of_its_own_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == OURS


def test_a_replay_runs_from_the_wheel_beside_python_daemon(scripts: Path, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    environment = {
        "PATH": os.environ["PATH"].replace(str(Path(sys.executable).parent), ""),
        "HOME": str(tmp_path),
        "RECOVERYD_CACHE_DIR": str(default_cache_dir()),
        "RECOVERYD_HTTP__LISTEN": address,
        "RECOVERYD_WORK_DIR": str(tmp_path / "work"),
        **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
    }

    def ctl(*words: str) -> str:
        return run([str(scripts / "recoveryctl"), *words], environment, tmp_path)

    who = "import daemon, recoveryd; print(daemon.DaemonContext.__name__, recoveryd.__file__)"
    told = run([str(scripts / "python"), "-c", who], environment, tmp_path)
    assert told.startswith("DaemonContext ")
    assert str(ROOT) not in told
    folder = str(tmp_path / "sandbox")
    environment["RECOVERYD_BOOTSTRAP_SERVERS"] = ctl("sandbox", "up", "--dir", folder).strip().rpartition("=")[2]
    try:
        ctl("topics", "apply")
        ctl("sandbox", "seed", "--topic", "flights", "--limit", "2000")
        with (tmp_path / "daemon.log").open("wb") as log:
            daemon = subprocess.Popen(
                [scripts / "recoveryd", "run"], env=environment, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            run([sys.executable, "-c", AWAIT_LEADER], environment, tmp_path)
            what = ("--source", "flights", "--from", "earliest", "--to", "latest", "--target", "copy", "--create")
            ctl("replay", *what, "--reason", "from the wheel", "--id", "wheel", "--yes", "--wait", "--timeout", "5m")
            assert "match" in ctl("describe", "wheel")
        finally:
            daemon.terminate()
            daemon.wait(patient_s(60))
    finally:
        ctl("sandbox", "down", "--dir", folder)

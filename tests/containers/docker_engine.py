"""Where the Docker engine of the container tests comes from: one that answers, else one this run installs and starts.

`RECOVERYD_CONTAINERS` says what is allowed. Unset: use an engine that answers, never install. `1`: as root on Debian,
install the PACKAGES below and start `dockerd` by hand with everything it owns in a temporary folder; the end of the run
stops exactly that process and puts the host's network back. Where that cannot be done the tests then fail, they are
not skipped. `0`: no containers at all. The packages stay installed. Nothing here knows an image.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import docker
import pytest
import requests.exceptions
from docker.errors import DockerException

from tests.containers import host_network

SWITCH = "RECOVERYD_CONTAINERS"
PACKAGES = ("docker.io", "iptables", "iproute2", "debootstrap")

_USUAL_HOST = "unix:///var/run/docker.sock"
_DISK_NEEDED_BYTES = 6 * 1024**3
_PROBE_TIMEOUT_S = 5
_APT_TIMEOUT_S = 300.0
_START_DEADLINE_S = 120.0
_STOP_DEADLINE_S = 120.0
_POLL_S = 0.05


class EngineUnavailable(Exception):  # noqa: N818  (not an error of ours: the reason why the tests are skipped)
    """No engine can be had on this machine; `str(error)` is the reason, with the next step."""


class EngineFailed(Exception):  # noqa: N818
    """An engine should have come up, or gone without a trace, and did not."""


def may_install() -> bool:
    """The user wants the tests to run if they allow to install an engine."""
    return os.environ.get(SWITCH, "") == "1"


def do_without(reason: EngineUnavailable) -> NoReturn:
    """Skips the test with the reason, or fails it if the suite was requested."""
    if may_install():
        pytest.fail(f"{SWITCH}=1 wants the container suite to run: {reason}", pytrace=False)
    pytest.skip(str(reason))


@contextmanager
def running_engine() -> Iterator[str | None]:
    """Yields the `DOCKER_HOST` of an engine this run started, or `None` when the usual one answers.

    Raises `EngineUnavailable` with the reason, or `EngineFailed` with the end of the engine's log.
    """
    if os.environ.get(SWITCH, "") == "0":
        raise EngineUnavailable(f"{SWITCH}=0 switches the container tests off")
    if answers():
        yield None
        return
    if not may_install():
        raise EngineUnavailable(f"no Docker engine answers; {SWITCH}=1 installs and starts one (root on Debian)")
    install_packages()
    if answers():  # the package may have started its service itself
        yield None
        return
    engine = PrivateEngine(Path(tempfile.mkdtemp(prefix="recoveryd-docker-")))
    try:
        engine.start()
        yield engine.host
    finally:
        engine.stop()


def answers(host: str | None = None) -> bool:
    """True when an engine answers at `host`; `None` = as the environment says, else at the usual socket."""
    address = host or os.environ.get("DOCKER_HOST") or _USUAL_HOST
    if address.startswith("unix://") and not Path(address.removeprefix("unix://")).exists():
        return False
    try:
        client = (
            docker.DockerClient(address, timeout=_PROBE_TIMEOUT_S)
            if host
            else docker.from_env(timeout=_PROBE_TIMEOUT_S)
        )
    except (DockerException, requests.exceptions.RequestException):
        return False
    try:
        return bool(client.ping())
    except (DockerException, requests.exceptions.RequestException):
        return False
    finally:
        client.close()


def install_packages() -> None:
    """Debian's own packages, as root. Raises `EngineUnavailable` where that is not possible, `EngineFailed` when it
    fails.
    """
    wanted = ("dockerd", "docker", "iptables", "ip", "debootstrap")
    if os.geteuid() != 0:
        raise EngineUnavailable("no Docker engine answers, and installing one needs root")
    if not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        raise EngineUnavailable("no Docker engine answers, and only Debian's packages can be installed here")
    if all(shutil.which(program) for program in wanted):
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=_APT_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise EngineFailed(f"{' '.join(command)} failed: {(done.stdout + done.stderr).strip()[-800:]}")


class PrivateEngine:
    """A `dockerd` whose data, state, pid file and socket lie in `folder`, which goes with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._network_before = host_network.remember()

    @property
    def host(self) -> str:
        return f"unix://{self._folder / 'docker.sock'}"

    def start(self) -> None:
        """Returns once the engine answers. `setpriv` makes it end with us even if we are killed."""
        free_bytes = shutil.disk_usage(self._folder).free
        if free_bytes < _DISK_NEEDED_BYTES:
            raise EngineUnavailable(f"only {free_bytes >> 20} MiB are free under {self._folder}; the images need 6 GiB")
        command = [
            "setpriv", "--pdeathsig", "TERM", "dockerd",
            "--data-root", str(self._folder / "data"), "--exec-root", str(self._folder / "exec"),
            "--pidfile", str(self._folder / "pid"), "--host", self.host,
        ]  # fmt: skip
        with (self._folder / "dockerd.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        give_up_at_s = time.monotonic() + _START_DEADLINE_S
        while not answers(self.host):
            if self._process.poll() is not None or time.monotonic() >= give_up_at_s:
                raise EngineFailed(f"dockerd did not come up:\n{self._log_tail()}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Remove containers, end the engine, undo its network, delete its folder. Raises `EngineFailed` if that
        fails.
        """
        if self._process is not None and self._process.poll() is None:
            self._remove_containers()
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(_STOP_DEADLINE_S)
        left = host_network.put_back(self._network_before)
        self._unmount()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._folder.exists():
            left.append(f"{self._folder} could not be deleted")
        if left:
            raise EngineFailed("the private Docker engine left traces: " + "; ".join(left))

    def _remove_containers(self) -> None:
        """Remove all containers, which are all of this run; an engine that ends before its containers leaves their
        mounts.
        """
        client = docker.DockerClient(self.host, timeout=int(_STOP_DEADLINE_S))
        try:
            for container in client.containers.list(all=True):
                container.remove(force=True, v=True)
        except (DockerException, requests.exceptions.RequestException) as error:
            print(f"the engine's containers could not be removed: {error}")
        finally:
            client.close()

    def _unmount(self) -> None:
        mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for point in sorted((m for m in mounted if m.startswith(f"{self._folder}/")), reverse=True):
            subprocess.run(["umount", "-l", point], capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False)

    def _log_tail(self) -> str:
        return "\n".join((self._folder / "dockerd.log").read_text(errors="replace").splitlines()[-12:])

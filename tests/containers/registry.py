"""Which images the engine has or can pull, asked with a quick timeout, and how images are built and removed."""

import subprocess
import time
from pathlib import Path

import docker
import requests.exceptions
from docker.errors import DockerException, ImageNotFound

_IDLE_TIMEOUT_S = 20
_PULL_DEADLINE_S = 600.0
_BUILD_TIMEOUT_S = 900.0


class BuildFailed(Exception):  # noqa: N818
    """`docker build` ended with an error; `str(error)` ends with its last lines of output."""


def has_image(image: str) -> bool:
    client = docker.from_env()
    try:
        client.images.get(image)
    except ImageNotFound:
        return False
    finally:
        client.close()
    return True


def can_pull(image: str) -> bool:
    """True once `image` is on this engine. False at once without a registry, or when a pull hangs or takes too long."""
    if has_image(image):
        return True
    repository, _, tag = image.rpartition(":")
    give_up_at_s = time.monotonic() + _PULL_DEADLINE_S
    client = docker.from_env(timeout=_IDLE_TIMEOUT_S)
    try:
        for line in client.api.pull(repository, tag=tag, stream=True, decode=True):
            if "error" in line or time.monotonic() >= give_up_at_s:
                return False
    except (DockerException, requests.exceptions.RequestException):
        return False
    finally:
        client.close()
    return has_image(image)


def build(context: Path, tag: str, arguments: dict[str, str] | None = None) -> str:
    """`docker build` as a user types it. Returns `tag`; raises `BuildFailed`."""
    command = ["docker", "build", "--tag", tag]
    for name, value in (arguments or {}).items():
        command += ["--build-arg", f"{name}={value}"]
    done = subprocess.run(
        [*command, str(context)], capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed: {(done.stdout + done.stderr).strip()[-3000:]}")
    return tag


def size_bytes(image: str) -> int:
    client = docker.from_env()
    try:
        return int(client.images.get(image).attrs["Size"])
    finally:
        client.close()


def remove(images: list[str]) -> None:
    """Removes tags this run made, so that a foreign engine is left as it was; pulled public images stay as a cache."""
    client = docker.from_env()
    try:
        for image in images:
            if has_image(image):
                client.images.remove(image, force=True)
    finally:
        client.close()

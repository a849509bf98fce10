"""Finds a Java that can run Kafka and Spark, or says exactly what to install.

`JAVA_HOME` wins over `PATH`, as in Spark itself. Nothing is installed or downloaded here.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from recoveryd_sandbox.errors import JavaMissing

MIN_JAVA_MAJOR = 17

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_PROBE_TIMEOUT_S = 60.0

_HINT = (
    "Install Java 17 or newer: `sudo apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "`sudo dnf install java-17-openjdk-headless` (RHEL, Fedora), `brew install openjdk@17` (macOS); "
    "or point JAVA_HOME at one."
)


def parse_java_major(version_output: str) -> int | None:
    """Major version in the output of `java -version`, `None` when there is none. `1.8.0_392` is 8."""
    match = _VERSION.search(version_output)
    if match is None:
        return None
    major, minor = int(match.group(1)), match.group(2)
    return int(minor) if major == 1 and minor is not None else major


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of a `java` executable of version 17 or newer. Raises `JavaMissing` with the next step."""
    too_old: list[str] = []
    for candidate in _candidates(environ):
        major = _java_major(candidate)
        if major is None:
            continue
        if major >= MIN_JAVA_MAJOR:
            return candidate
        too_old.append(f"{candidate} is version {major}")
    found = f"only an older one ({', '.join(too_old)})" if too_old else "none in JAVA_HOME or on PATH"
    raise JavaMissing(f"Kafka and Spark need Java {MIN_JAVA_MAJOR} or newer, and this machine has {found}.", _HINT)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    home = environ.get("JAVA_HOME", "").strip()
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path)


def _java_major(executable: Path) -> int | None:
    """`None` when this is no working Java; on macOS `/usr/bin/java` may be a stub that only prints advice."""
    try:
        return parse_java_major(_version_told(executable))
    except (OSError, subprocess.SubprocessError):
        return None


@functools.cache
def _version_told(executable: Path) -> str:
    """Asked once, since each answer starts a JVM; one that failed may do better later. Raises OSError or
    SubprocessError.
    """
    probe = subprocess.run(
        [executable, "-version"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
    )
    return probe.stderr + probe.stdout


def main() -> int:
    """Prints the Java found; exit code 2 with the next step on stderr when there is none. Used by the Makefile."""
    try:
        print(find_java())
    except JavaMissing as missing:
        print(missing, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

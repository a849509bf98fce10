"""Compiles a folder of Java sources once per machine: the classes lie in the cache, under a name made of the sources.

The compiler is a jar of the bundle, so that a Java without `javac` will do, as for everything else here.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.jars import ECJ_VERSION, KAFKA_VERSION, STREAMS, default_cache_dir, kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.jvm import Jvm
from recoveryd_sandbox.locks import locked

_RELEASE = "17"
_TIMEOUT_S = 300.0
_LOCK_DEADLINE_S = 400.0
_OUTPUT_CHARS = 2_000


class CompileFailed(SandboxError):  # noqa: N818  (named for what happened, as its family is)
    """The sources are not right; the message is the compiler's."""


def compiled(sources: Path, cache_dir: Path | None = None) -> Path:
    """Folder with the classes of all `*.java` below `sources`, which may use Kafka Streams. Safe to call from several
    processes at once. Raises `CompileFailed`, `JarsUnavailable`, `LockTimeout` or `JavaMissing`.
    """
    files = sorted(sources.rglob("*.java"))
    root = default_cache_dir() if cache_dir is None else cache_dir
    classes = root / f"classes-{_digest(sources, files)}"
    if classes.is_dir():
        return classes
    jvm = Jvm(find_java(), kafka_jars(bundle=STREAMS))
    with locked(root / "java-classes.lock", _LOCK_DEADLINE_S):
        if not classes.is_dir():
            _compile(jvm, files, classes)
    return classes


def _digest(sources: Path, files: list[Path]) -> str:
    digest = hashlib.sha256(f"{KAFKA_VERSION} {ECJ_VERSION} {_RELEASE}\0".encode())
    for file in files:
        digest.update(f"{file.relative_to(sources)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _compile(jvm: Jvm, files: list[Path], classes: Path) -> None:
    """Into a working folder that is renamed at the end, so that one under its final name is always complete."""
    work = classes.with_suffix(".partial")
    shutil.rmtree(work, ignore_errors=True)
    class_path = ":".join(str(jar) for jar in sorted(jvm.jars.glob("*.jar")))
    options = f"-{_RELEASE}", "-proc:none", "-cp", class_path, "-d", str(work)
    command = jvm.command("org.eclipse.jdt.internal.compiler.batch.Main", *options, *map(str, files))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise CompileFailed(f"Compiling {classes.name} took longer than {_TIMEOUT_S:.0f} s.") from None
    if done.returncode != 0:
        raise CompileFailed(f"The sources do not compile: {(done.stderr + done.stdout)[-_OUTPUT_CHARS:]}")
    work.replace(classes)

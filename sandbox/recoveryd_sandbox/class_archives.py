"""The classes of Kafka's programs, parsed and verified once and mapped by every later JVM. `python -m
recoveryd_sandbox.class_archives` makes the archives that are not there yet.

Java calls this class data sharing. Each program is started once on a broker of its own, Java notes the classes that it
loads, and writes them into an archive beside the jars, named for the Java it was made with (`Jvm.archive`). Archives
are optional. It pays off for whoever starts many short JVMs, as the tests do; so nobody makes them in passing.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.connect_worker import ConnectWorker
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.jars import BROKER, STREAMS, TOOLS, Bundle, default_cache_dir, kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.jvm import Jvm
from recoveryd_sandbox.kafka_tools import Tool, run_tool
from recoveryd_sandbox.locks import locked
from recoveryd_sandbox.streams_app import AppSpec, Mode, Protocol, StreamsApp
from recoveryd_sandbox.topics import Topics

_BUNDLES = (BROKER, STREAMS, TOOLS)
_DUMP_TIMEOUT_S = 300.0
_LOCK_DEADLINE_S = 900.0
_OPTIONS = "JAVA_TOOL_OPTIONS"  # every JVM obeys it, whoever starts it
_OUTPUT_CHARS = 500


def main() -> int:
    """0 when there are all; 1 with a sentence on stderr when one could not be made, which costs time but
    nothing else.
    """
    try:
        java = find_java()
        jvms = {bundle: Jvm(java, kafka_jars(bundle=bundle)) for bundle in _BUNDLES}
        if all(jvm.archive.exists() for jvm in jvms.values()):
            return 0
        with (
            locked(default_cache_dir() / "class-archives.lock", _LOCK_DEADLINE_S),
            tempfile.TemporaryDirectory() as name,
        ):
            lacking = {bundle: jvm for bundle, jvm in jvms.items() if not jvm.archive.exists()}
            if lacking:
                _note_classes(Path(name))
            for bundle, jvm in lacking.items():
                _write(jvm, bundle, Path(name))
    except (SandboxError, OSError, subprocess.SubprocessError) as error:
        print(
            f"recoveryd: no archives of Kafka's classes, its programs start a little slower: {error}", file=sys.stderr
        )
        return 1
    return 0


def _note_classes(folder: Path) -> None:
    """Each program once, doing a little of what it is for."""
    with _noting(BROKER, folder):
        broker = Broker(folder / "kafka")
        broker.start()
    with broker:
        topics = Topics(broker.bootstrap)
        for topic in ("in", "out"):
            topics.create(topic, 1, {})
        with _noting(STREAMS, folder):
            for protocol in Protocol:
                spec = AppSpec(f"app-{protocol}", Mode.COUNT, ("in",), "out", protocol=protocol, is_exactly_once=True)
                with StreamsApp(folder / spec.application_id, broker.bootstrap, spec):
                    pass
        with _noting(TOOLS, folder):
            run_tool(Tool.CONSUMER_GROUPS, broker.bootstrap, folder / "tools", "--all-groups", "--describe")
            run_tool(Tool.STREAMS_RESET, broker.bootstrap, folder / "tools", "--application-id", "none")
            with ConnectWorker(folder / "connect", broker.bootstrap, "connect"):
                pass


@contextmanager
def _noting(bundle: Bundle, folder: Path) -> Iterator[None]:
    """JVMs that are started inside list what they load, each in a file of its own."""
    before = os.environ.get(_OPTIONS)
    os.environ[_OPTIONS] = f"{before or ''} -XX:DumpLoadedClassList={folder / bundle.name}.%p.classes".strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_OPTIONS]
        else:
            os.environ[_OPTIONS] = before


def merged(lists: Iterable[str]) -> list[str]:
    """What one of several JVMs loaded. The numbers that each gave to its classes would contradict each other, and serve
    only classes of loaders that a program made itself, which are left out.
    """
    lines = (
        line for text in lists for line in text.splitlines() if " source: " not in line and not line.startswith("#")
    )
    return list(dict.fromkeys(line.partition(" id: ")[0] for line in lines))


def _write(jvm: Jvm, bundle: Bundle, folder: Path) -> None:
    """Whole or not at all: a JVM that maps half of an archive breaks. Raises `SandboxError`."""
    lists = [file.read_text(encoding="utf-8") for file in sorted(folder.glob(f"{bundle.name}.*.classes"))]
    wanted = folder / f"{bundle.name}.list"
    wanted.write_text("".join(f"{line}\n" for line in merged(lists)), encoding="utf-8")
    part = jvm.archive.with_suffix(f".{os.getpid()}.part")
    options = "-Xshare:dump", f"-XX:SharedClassListFile={wanted}", f"-XX:SharedArchiveFile={part}"
    try:
        done = subprocess.run(
            jvm.command("none", options=options), capture_output=True, text=True, timeout=_DUMP_TIMEOUT_S, check=False
        )
        if done.returncode != 0 or not part.exists():
            raise SandboxError(
                f"Java archived no classes of {bundle.title}: {(done.stdout + done.stderr)[-_OUTPUT_CHARS:]}"
            )
        part.replace(jvm.archive)
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    raise SystemExit(main())

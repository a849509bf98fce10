"""A standalone Spark cluster on this machine, from the jars of the installed pyspark: a master and workers that know
nothing of the checkout.

Each worker stands for a machine: its own session, folder and environment, and a Python with pyspark and confluent-kafka
only. Everything else that a lane needs must come with the application.
"""

import importlib.util
import itertools
import os
import socket
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from recoveryd_sandbox.ports import free_ports
from tests.e2e.processes import Process, await_gone, kill, session_of, wait_for

_START_S = 90.0
_PACKAGES = ("pyspark", "py4j", "confluent_kafka", "confluent_kafka.libs", "typing_extensions.py")
_HTTP_TIMEOUT_S = 120.0


@dataclass
class Machine:
    """A worker with everything it started."""

    name: str
    folder: Path
    process: "subprocess.Popen[bytes]"

    def processes(self) -> list[Process]:
        return session_of(self.process.pid)

    def executors(self) -> list[Process]:
        return [p for p in self.processes() if "CoarseGrainedExecutorBackend" in p.command]

    def kill(self) -> None:
        """Kill all its processes at once, as when a machine dies."""
        processes = self.processes()
        for process in processes:
            kill(process)
        self.process.wait(60.0)
        await_gone(processes)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]


class SparkCluster:
    """Use as a context manager. `workers` machines of `cores` each; `conf`: the content of spark-defaults.conf on all
    of them.
    """

    def __init__(self, folder: Path, workers: int = 2, cores: int = 2, conf: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.machines: list[Machine] = []
        self.python = folder / "venv" / "bin" / "python"
        self._cores = cores
        self._wanted = workers
        self._conf = dict(conf or {})
        self._port, self._ui_port = free_ports(2)
        self._numbers = itertools.count(1)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def profile(self) -> dict[str, str]:
        """The properties by which an application on this machine uses the cluster."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.pyspark.python": str(self.python),
            "spark.executor.memory": "512m",
            **self._conf,
        }

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        make_python(self.folder / "venv")
        self._master = self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._ui_port))  # fmt: skip
        wait_for(lambda: _answers(self._port), _START_S, self._master.log)
        for machine in [self._begin() for _ in range(self._wanted)]:
            _await_registered(machine)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for machine in [*self.machines, self._master]:
            if machine.process.poll() is None:
                machine.kill()

    def add_machine(self) -> Machine:
        """One more worker; registered when this returns."""
        made = self._begin()
        _await_registered(made)
        return made

    def _begin(self) -> Machine:
        port = str(free_ports(1)[0])
        name = f"machine{next(self._numbers)}"
        made = self._start(
            name, "org.apache.spark.deploy.worker.Worker", self.master, "--host", "127.0.0.1", "-c", str(self._cores), "-m", "2g",
            "--webui-port", port, "-d", str(self.folder / name / "apps"),
        )  # fmt: skip
        self.machines.append(made)
        return made

    def page(self, path: str = "/json/") -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ui_port}{path}", timeout=_HTTP_TIMEOUT_S) as reply:
            text: str = reply.read().decode()
        return text

    def _start(self, name: str, *main: str) -> Machine:
        folder = self.folder / name
        conf = folder / "conf"
        conf.mkdir(parents=True)
        (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in self._conf.items()))
        (conf / "log4j2.properties").write_text(_LOGGING)
        home = _folder_of("pyspark")
        environment = make_environment(folder) | {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true",
            "MACHINE": name,
        }
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *main], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return Machine(name, folder, process)


def make_environment(home: Path) -> dict[str, str]:
    """The environment of a machine: PATH, and JAVA_HOME if it is set."""
    java = {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}
    return {"PATH": os.environ["PATH"], "HOME": str(home)} | java


def make_python(folder: Path) -> Path:
    """A Python with links to the packages an executor needs, and to nothing else of this checkout's environment."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    packages = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    installed = _folder_of("pyspark").parent
    for name in _PACKAGES:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    python = folder / "bin" / "python"
    seen = subprocess.run(
        [python, "-c", (
            "import confluent_kafka, pyspark, importlib.util as u; print([u.find_spec(n) for n in ('recoveryd', "
            "'recoveryd_jobs')])"
        )],
        capture_output=True, text=True, timeout=60, check=False, cwd=folder, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert seen.stdout.strip() == "[None, None]", seen.stdout + seen.stderr
    return python


def _await_registered(machine: Machine) -> None:
    wait_for(lambda: "Successfully registered" in machine.log(), _START_S, machine.log)


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).resolve().parent


def _answers(port: int) -> bool:
    with socket.socket() as looking:
        looking.settimeout(0.5)
        return looking.connect_ex(("127.0.0.1", port)) == 0


_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

"""Where and with what something was measured, without names of hosts and folders."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from recoveryd.simulation.response import Machine, Versions
from recoveryd_sandbox.jars import kafka_jars
from recoveryd_sandbox.java import find_java

_JAVA_DEADLINE_S = 120.0


def machine() -> Machine:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(_cpu_model(), os.cpu_count() or 1, round(memory_gib, 1), f"{platform.system()} {platform.release()}")


def versions() -> Versions:
    return Versions(
        recoveryd=version("recoveryd"),
        kafka=_kafka_version(),
        java=_java_version(),
        python=platform.python_version(),
        pyspark=version("pyspark"),
        confluent_kafka=version("confluent-kafka"),
    )


def _cpu_model() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8", errors="replace").splitlines() if told.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _java_version() -> str:
    command = [str(find_java()), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_JAVA_DEADLINE_S, check=False)
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found.group(1) if found else "?"


def _kafka_version() -> str:
    return next((jar.stem.rpartition("-")[2] for jar in kafka_jars().glob("kafka_*.jar")), "?")

"""The line above every table: the machine on which the numbers were measured."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from recoveryd_sandbox.jars import kafka_jars
from recoveryd_sandbox.java import find_java


def machine_line() -> str:
    """CPU, cores, memory, system, and the relevant versions."""
    parts = [
        f"{_cpu_model()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
        f"Java {_java_version()}",
        f"Kafka {_kafka_version()}",
        f"pyspark {version('pyspark')}",
        f"confluent-kafka {version('confluent-kafka')}",
    ]
    return "; ".join(parts)


def load_line() -> str:
    """Load averages: what else the machine had to do."""
    return "load " + ", ".join(f"{value:.2f}" for value in os.getloadavg())


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _java_version() -> str:
    done = subprocess.run([str(find_java()), "-version"], capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found.group(1) if found else "?"


def _kafka_version() -> str:
    for jar in kafka_jars().glob("kafka_*.jar"):
        return jar.stem.rpartition("-")[2]
    return "?"

"""The line above every table: the machine on which the numbers were measured."""

import os

from recoveryd_sandbox.machine import machine, versions


def machine_line() -> str:
    """CPU, cores, memory, system, and the relevant versions."""
    here, used = machine(), versions()
    parts = [
        f"{here.cpu}, {here.cores} cores, {here.memory_gib:.0f} GiB, {here.system}",
        f"Python {used.python}",
        f"Java {used.java}",
        f"Kafka {used.kafka}",
        f"pyspark {used.pyspark}",
        f"confluent-kafka {used.confluent_kafka}",
    ]
    return "; ".join(parts)


def load_line() -> str:
    """Load averages: what else the machine had to do."""
    return "load " + ", ".join(f"{value:.2f}" for value in os.getloadavg())

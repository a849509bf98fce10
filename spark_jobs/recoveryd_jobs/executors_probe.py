"""A Spark application for `recoveryctl doctor --deep`: does what tasks of a lane need exist where the executors are?

Prints one line for people, or ends with Spark's error. It opens no connection to Kafka.
"""

import sys
from collections.abc import Iterable, Iterator


def look(_rows: Iterable[int]) -> Iterator[tuple[str, str, str]]:
    """Host, Python and client library, as a task sees them."""
    import platform  # noqa: PLC0415
    import socket  # noqa: PLC0415
    from importlib.metadata import version  # noqa: PLC0415

    import confluent_kafka  # noqa: F401, PLC0415  (a library of C that is there and does not load is of no use)

    yield socket.gethostname(), platform.python_version(), version("confluent-kafka")


def main(slots: int) -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with SparkSession.builder.getOrCreate() as spark:
        found = spark.sparkContext.parallelize(range(slots), slots).mapPartitions(look).collect()
    hosts = len({host for host, _python, _client in found})
    pythons = ", ".join(sorted({python for _host, python, _client in found}))
    clients = ", ".join(sorted({client for _host, _python, client in found}))
    told = f"executors: {slots} tasks ran on {hosts} host(s), Python {pythons}, confluent-kafka {clients}\n"
    sys.stdout.write(told)


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""What executors must have before lanes can run on them: protected links where secrets travel to them, and a Python
that can import what a lane needs.

It stands here because the driver refuses what `recoveryctl doctor` names beforehand.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

SECRETS = ("sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.location", "ssl.key.pem", "ssl.key.password")
# Each row: the property that is asked for, then others that have the same effect.
_PROTECTION = (
    ("spark.authenticate",),
    ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"),
    ("spark.io.encryption.enabled",),
)
_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)")
_NO_PROGRAM = re.compile(r"Cannot run program \"([^\"]+)\"")
_NO_VERSION = re.compile(r"PYTHON_VERSION_MISMATCH\][^\n]*")


def unsecured(conf: Any, clients: Iterable[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """(client properties that hold secrets, Spark's protections that are off). If neither is empty, the secrets must
    not be sent to executors. `conf`: Spark's properties, a mapping or a SparkConf.
    """
    named = sorted({name for client in clients for name in SECRETS if client.get(name)})
    return named, [names[0] for names in _PROTECTION if not any(_is_on(conf, name) for name in names)]


def why_unfit(text: str) -> str:
    """What executors lack, as a sentence, when a text of Spark is the error of some unfit for our tasks; "" for any
    other text.
    """
    if found := _NO_PROGRAM.search(text):
        return f"The executors cannot start the Python {found[1]}; set spark.pyspark.python in the profile's conf."
    if found := _NO_MODULE.search(text):
        package = {"confluent_kafka": "confluent-kafka"}.get(found[1].partition(".")[0], found[1])
        return f"The executors' Python has no module {found[1]}; install {package} for it, in the daemon's version."
    if found := _NO_VERSION.search(text):
        return f"The executors' Python is not the driver's: {found[0].partition('] ')[2]}"
    return ""


def _is_on(conf: Any, name: str) -> bool:
    return str(conf.get(name, "false")).lower() == "true"

"""What an application needs when its lanes run on other machines: protected links for secrets, the files that client
properties name, and errors that name the cause.

Client properties go to the executors inside the tasks. A file they name is read here, on the driver's machine, and its
text replaces the path; `clients` opens it there without a disk. None of this is in Spark's configuration, on a command
line or in an event log.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recoveryd_jobs.clients import INLINE, LOCATIONS
from recoveryd_jobs.contract import JobSpec
from recoveryd_jobs.errors import JobError

SECRETS = ("sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.location", "ssl.key.pem", "ssl.key.password")
FILE_BYTES_MAX = 1024 * 1024
# Each row: the property that is asked for, then others that have the same effect.
_PROTECTION = (
    ("spark.authenticate",),
    ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"),
    ("spark.io.encryption.enabled",),
)
_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)")
_NO_PROGRAM = re.compile(r"Cannot run program \"([^\"]+)\"")
_NO_VERSION = re.compile(r"PYTHON_VERSION_MISMATCH\][^\n]*")


def check_secured(conf: Any, spec: JobSpec) -> None:
    """Raises JobError when secrets of the spec would travel to executors over links and disks that Spark does not
    protect.
    """
    named, missing = unsecured(conf, _clients(spec))
    if named and missing:
        raise JobError(
            "spark_unsecured",
            f"Client properties hold secrets ({', '.join(named)}), the master is {conf.get('spark.master')}, "
            f"and {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not true.",
        )


def unsecured(conf: Any, clients: Iterable[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """(client properties that hold secrets, Spark's protections that are off). If neither is empty, the secrets must
    not be sent to executors.
    """
    named = sorted({name for client in clients for name in SECRETS if client.get(name)})
    return named, [names[0] for names in _PROTECTION if not any(_is_on(conf, name) for name in names)]


def make_portable(spec: JobSpec) -> JobSpec:
    """The same spec without paths of this machine. Raises JobError, which names the file, when one cannot be read."""
    return replace(
        spec,
        source=replace(spec.source, client=_without_paths(spec.source.client)),
        target=replace(spec.target, client=_without_paths(spec.target.client)),
        control=replace(spec.control, client=_without_paths(spec.control.client)),
    )


def explain_failure(text: str) -> JobError | None:
    """The JobError for a Spark error text that comes from an executor unfit for our tasks; None for any other text."""
    if found := _NO_PROGRAM.search(text):
        said = f"The executors cannot start the Python {found[1]}; set spark.pyspark.python in the profile's conf."
    elif found := _NO_MODULE.search(text):
        package = {"confluent_kafka": "confluent-kafka"}.get(found[1].partition(".")[0], found[1])
        said = f"The executors' Python has no module {found[1]}; install {package} for it, in the daemon's version."
    elif found := _NO_VERSION.search(text):
        said = f"The executors' Python is not the driver's: {found[0].partition('] ')[2]}"
    else:
        return None
    return JobError("executors_unfit", said)


def _clients(spec: JobSpec) -> tuple[Mapping[str, str], ...]:
    return spec.source.client, spec.target.client, spec.control.client


def _is_on(conf: Any, name: str) -> bool:
    return str(conf.get(name, "false")).lower() == "true"


def _without_paths(client: Mapping[str, str]) -> dict[str, str]:
    return {name: _read(name, value) if name in LOCATIONS else value for name, value in client.items()}


def _read(name: str, path: str) -> str:
    if path == "probe":  # librdkafka's word for: look where this system keeps its certificates
        return path
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise JobError(
            "internal", f"{name} {path} cannot be read, so it cannot go to the executors: {error.strerror}."
        ) from None
    if len(content) > FILE_BYTES_MAX:
        raise JobError("internal", f"{name} {path} is larger than 1 MiB, so it does not go to the executors.")
    return INLINE + base64.b64encode(content).decode("ascii")

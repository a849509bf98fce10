"""What an application does when its lanes run on other machines: it refuses to send secrets over open links, lets the
files travel that client properties name, and makes errors of executors name the cause.

Client properties go to the executors inside the tasks. A file they name is read here, on the driver's machine, and its
text replaces the path; `clients` opens it there without a disk. None of this is in Spark's configuration, on a command
line or in an event log.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recoveryd_jobs.clients import INLINE, LOCATIONS
from recoveryd_jobs.contract import JobSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.shared.executors import unsecured, why_unfit

FILE_BYTES_MAX = 1024 * 1024


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
    unfit = why_unfit(text)
    return JobError("executors_unfit", unfit) if unfit else None


def _clients(spec: JobSpec) -> tuple[Mapping[str, str], ...]:
    return spec.source.client, spec.target.client, spec.control.client


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

"""What `recoveryctl doctor` looks at for each Spark profile: is its master there, how many lanes it runs at once, may
secrets travel to it.

No application is started, so what the cluster really gives, and the Python of its executors, are seen by the first
attempt only.
"""

import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from recoveryd.cli.verbs.doctor_checks import CheckResult, bad, good
from recoveryd.kernel.catalogue import CATALOGUE, Code
from recoveryd.settings import Settings
from recoveryd.settings.kinds import LOCAL_MASTER
from recoveryd.settings.profiles import Profile

_TIMEOUT_S = 3.0
_PORTS = {"http": 80, "https": 443}
_DEFAULTS_LINE = re.compile(r"^\s*([^\s#:=]+)\s*[\s:=]\s*(.*?)\s*$")


def check_profiles(settings: Settings) -> Iterator[CheckResult]:
    """One line for each profile of the config."""
    for name, profile in settings.values.profiles.items():
        yield _check_profile(f"profile {name}", profile, settings.librdkafka_all())


def _check_profile(name: str, profile: Profile, clients: Mapping[str, Mapping[str, str]]) -> CheckResult:
    from recoveryd_jobs.driver.remote import unsecured  # noqa: PLC0415  (help must not pay for the client library)

    slots = f"{profile.master}, {profile.slots} lanes at once"
    if LOCAL_MASTER.fullmatch(profile.master):
        return good(name, slots)
    secrets, missing = unsecured(_defaults() | profile.conf, clients.values())
    if secrets and missing:
        found = (
            f"{Code.SPARK_UNSECURED.value} {', '.join(secrets)} would travel to {profile.master} without "
            f"{', '.join(missing)}."
        )
        return bad(name, found, CATALOGUE[Code.SPARK_UNSECURED].next_step)
    if problem := _unreachable(profile.master):
        return bad(name, problem, "Start it, or correct the profile's `master`.")
    return good(name, f"{slots}; the master answers")


def _defaults() -> dict[str, str]:
    """Of spark-defaults.conf, which drivers load as well."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None:
        from recoveryd.adapters.spark.command import spark_home  # noqa: PLC0415

        folder = str(spark_home() / "conf")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {found[1]: found[2] for line in lines if (found := _DEFAULTS_LINE.match(line))}


def _unreachable(master: str) -> str:
    """Why nobody can be asked for executors there; "" when somebody takes connections."""
    if master == "yarn":
        folder = os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")
        return "" if folder and Path(folder).is_dir() else "HADOOP_CONF_DIR names no folder, so YARN cannot be found."
    scheme, _, places = master.removeprefix("k8s://").rpartition("://")
    told = []
    for place in places.split(","):  # standby masters of a standalone cluster
        host, _, port = place.partition("/")[0].partition(":")
        try:
            with socket.create_connection((host, int(port or _PORTS.get(scheme, 7077))), _TIMEOUT_S):
                return ""
        except (OSError, ValueError) as error:
            told.append(f"{place} does not answer: {error}")
    return f"{'; '.join(told)}."

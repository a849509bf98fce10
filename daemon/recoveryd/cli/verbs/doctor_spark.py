"""What `recoveryctl doctor` looks at for each Spark profile: is its master there, how many lanes it runs at once, may
secrets travel to it.

What a cluster really gives, and the Python of its executors, is only seen by starting some, which `--deep` does.
"""

import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from recoveryd.cli.verbs.doctor_checks import CheckResult, CheckVerdict, bad, failed, good, skipped
from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings import Settings
from recoveryd.settings.kinds import LOCAL_MASTER
from recoveryd.settings.profiles import Profile
from recoveryd_jobs.shared.executors import unsecured, why_unfit

_TIMEOUT_S = 3.0
_EXECUTORS_S = 180.0
_ANSWER = "executors: "
_PORTS = {"http": 80, "https": 443}
_DEFAULTS_FILE = "spark-defaults.conf"
_DEFAULTS_LINE = re.compile(r"^\s*([^\s#:=]+)\s*[\s:=]\s*(.*?)\s*$")


def check_profiles(settings: Settings, *, deep: bool) -> Iterator[CheckResult]:
    """Two lines for each profile of the config. `deep` starts its executors, which takes some seconds and what the
    profile asks for.
    """
    for name in settings.values.profiles:
        found = _check_profile(settings, name)
        yield found
        line = f"executors of {name}"
        if not deep:
            yield skipped(line, "none were started", "Look at them with --deep.")
        elif found.verdict is CheckVerdict.FAIL:
            yield skipped(line, "the profile is not good", "See above.")
        else:
            profile = settings.values.profiles[name]
            yield _check_executors(line, profile, settings.spark_conf(name), settings.secret_variables)


def _check_executors(name: str, profile: Profile, conf: Mapping[str, str], withheld: frozenset[str]) -> CheckResult:
    """Start an application as an attempt does, and let every slot say which Python it is."""
    from recoveryd.adapters.spark.command import (  # noqa: PLC0415
        JOBS_DIR,
        SparkProfile,
        submit_command,
        submit_environment,
    )
    from recoveryd.errors import LaunchError  # noqa: PLC0415

    made = SparkProfile(profile.master, profile.driver_memory, conf, 0, profile.slots)
    step = "Correct the profile, or what its executors have; docs/deploy.md says what they need."
    with tempfile.TemporaryDirectory(prefix="recoveryd-doctor-") as folder:
        try:
            command = submit_command(made, "recoveryd-doctor", Path(folder), [str(profile.slots)])
            command[command.index(str(JOBS_DIR / "main.py"))] = str(JOBS_DIR / "executors_probe.py")
            environment = submit_environment(withheld=withheld)
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_EXECUTORS_S, check=False, env=environment
            )
        except LaunchError as error:
            return failed(name, error)
        except subprocess.TimeoutExpired:
            return bad(name, f"{profile.master} gave no executors within {_EXECUTORS_S:.0f} s.", step)
        except OSError as error:
            return bad(name, f"spark-submit does not run: {error}.", "Check Java first, then reinstall PySpark.")
    told = next((line for line in done.stdout.splitlines() if line.startswith(_ANSWER)), "")
    if done.returncode == 0 and told:
        return good(name, told.removeprefix(_ANSWER))
    unfit = why_unfit(done.stderr + done.stdout)
    last = (done.stderr.strip().splitlines() or ["no output"])[-1][:200]
    said = f"{Code.EXECUTORS_UNFIT.value} {unfit}" if unfit else f"spark-submit ended with {done.returncode}: {last}"
    return bad(name, said, step)


def _check_profile(settings: Settings, profile_name: str) -> CheckResult:
    name, profile = f"profile {profile_name}", settings.values.profiles[profile_name]
    try:
        conf = settings.spark_conf(profile_name)
    except ConfigProblem as error:
        return failed(name, error)
    slots = f"{profile.master}, {profile.slots} lanes at once"
    if LOCAL_MASTER.fullmatch(profile.master):
        return good(name, slots)
    try:
        defaults = _defaults()
    except (OSError, UnicodeDecodeError) as error:
        return bad(name, f"{_DEFAULTS_FILE} cannot be read: {error}.", "Correct its owner, or write it in UTF-8.")
    secrets, missing = unsecured(defaults | conf, settings.librdkafka_all().values())
    if secrets and missing:
        found = (
            f"{Code.SPARK_UNSECURED.value} {', '.join(secrets)} would travel to {profile.master} without "
            f"{', '.join(missing)}."
        )
        return bad(name, found, Code.SPARK_UNSECURED.next_step)
    if problem := _unreachable(profile.master):
        return bad(name, problem, "Start it, or correct the profile's `master`.")
    return good(name, f"{slots}; the master answers")


def _defaults() -> dict[str, str]:
    """Of the file that drivers load as well."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None:
        from recoveryd.adapters.spark.command import spark_home  # noqa: PLC0415

        folder = str(spark_home() / "conf")
    try:
        lines = Path(folder, _DEFAULTS_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
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

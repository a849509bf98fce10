"""Each command of the how-to guides, as it stands, in a home of its own; what they say comes of it, comes of it."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from recoveryd_sandbox.daemon_process import end_processes_naming
from recoveryd_sandbox.jars import default_cache_dir
from recoveryd_sandbox.ports import free_ports
from tests.e2e.test_readme import AWAIT_LEADER, PATIENT, output_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
RUN = ("three-secured-clusters", "disaster-copy", "protect-a-service", "use-in-ci", "upgrade-recoveryd")


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of somebody with an empty home; what is left running there ends."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RECOVERYD_", "XDG_"))},
        **PATIENT,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COLUMNS": "160",
        "RECOVERYD_CACHE_DIR": str(default_cache_dir()),
        "RECOVERYD_HTTP__LISTEN": f"127.0.0.1:{free_ports(1)[0]}",
    }
    try:
        yield environment
    finally:
        with ExitStack() as ends:  # each of them, whatever becomes of the others
            ends.callback(end_processes_naming, str(tmp_path))
            for folder in {path.parent for path in tmp_path.rglob("sandbox.lock")}:
                command = ["recoveryctl", "sandbox", "down", "--dir", str(folder)]
                ends.callback(subprocess.run, command, env=environment, capture_output=True, timeout=600, check=False)


def lines_of(guide: str) -> Iterator[str]:
    text = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()


def leading(lines: Iterable[str]) -> Iterator[str]:
    """Those behind the start of a daemon begin when it leads."""
    for line in lines:
        yield line
        if line.startswith("recoveryd run") and line.endswith("&"):
            yield f"{sys.executable} -c {shlex.quote(AWAIT_LEADER)}"


def told_by(guide: str, environment: dict[str, str]) -> str:
    at_the_end = (
        "trap 'for one in $(jobs -p); do kill $one; done' EXIT"  # a guide that fails leaves its daemon otherwise
    )
    script = ["set -eux", at_the_end, f"cd {environment['HOME']}", *leading(lines_of(guide))]
    told = output_of(["bash", "-c", "\n".join(script)], environment)
    print(told)
    return told


def test_each_guide_with_commands_is_run() -> None:
    assert {page.stem for page in GUIDES.glob("*.md") if list(lines_of(page.stem))} == set(RUN)


@pytest.mark.wide("tests/e2e/test_two_secured.py::test_a_copy_to_the_other_cluster_is_exact_and_proved")
@pytest.mark.cluster
def test_one_daemon_copies_between_secured_clusters_and_proves_it(operator: dict[str, str]) -> None:
    told = told_by("three-secured-clusters", operator)
    assert "Verification: match" in told
    assert "password=" not in told.replace("password=${", "")


@pytest.mark.wide("tests/e2e/test_schedule.py::test_runs_continue_each_other_over_kill_9_and_a_deadline_survives_it")
def test_a_copy_on_another_cluster_is_kept_proved_and_brought_back(operator: dict[str, str]) -> None:
    told = told_by("disaster-copy", operator)
    assert "flights-far" in told
    assert "\nmatch\n" in told


def test_the_proof_of_a_copy_for_a_disaster_compares_what_both_sides_hold() -> None:
    """One keeps for ever what the other deletes, and gets later what the other has."""
    text = (GUIDES / "disaster-copy.md").read_text(encoding="utf-8")
    [proof] = re.findall(r"^recoveryctl verify (?:.|\\\n)*?--id far-is-whole.*$", text, re.MULTILINE)
    assert re.search(r" --from \S+ --to \S+ ", proof)


@pytest.mark.wide(
    "tests/e2e/test_live_protection.py::test_a_replay_takes_what_live_traffic_can_spare_yields_at_its_slo_and_waits_at_the_floor_in_the_dark"
)
def test_a_service_is_protected_by_naming_it(operator: dict[str, str]) -> None:
    # On a machine that stands still every record is late, and a replay may wait for as long as that lasts.
    told = told_by("protect-a-service", {**operator, "RECOVERYD_MONITOR__CANARY__LATENCY_SLO": "60s"})
    rule = r"^(main: .+|at the floor until the controller has decided)$"
    assert re.search(rule, told, re.MULTILINE), "the sentence of limits.rule"
    assert "p99" in (Path(operator["HOME"]) / "live.log").read_text(encoding="utf-8")


@pytest.mark.wide("tests/e2e/test_replay.py::test_a_dry_run_only_plans_and_its_hash_runs_the_same_plan_once")
def test_a_pipeline_runs_exactly_what_it_planned(operator: dict[str, str]) -> None:
    told = told_by("use-in-ci", operator)
    assert "\nmatch\n" in told
    assert "Verification: match" in (Path(operator["HOME"]) / "build-17.txt").read_text(encoding="utf-8")


def test_a_replay_outlives_the_change_of_the_daemon(operator: dict[str, str]) -> None:
    told = told_by("upgrade-recoveryd", operator)
    assert "\nmatch\n" in told

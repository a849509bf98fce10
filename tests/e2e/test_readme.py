"""The first steps of a new user: the shell blocks of the README, and `make demo`, with a real broker, daemon
and Spark.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from recoveryd_sandbox.jars import default_cache_dir
from recoveryd_sandbox.ports import free_ports
from recoveryd_sandbox.seed import seed
from tests.builders.history import create_topics
from tests.e2e.clients import writer
from tests.e2e.data import write_plain
from tests.e2e.log_reader import read_log

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 2_400
OLD, NEW_EACH = 20_000, 300
# What a daemon of somebody with an idle machine need not say: on a busy one applications start late, and heartbeats
# come late.
PATIENT = {
    "RECOVERYD_ATTEMPTS__LAUNCH_TIMEOUT": "5m",
    "RECOVERYD_ATTEMPTS__HEARTBEAT_TIMEOUT": "90s",
    "RECOVERYD_FAUST__SESSION_TIMEOUT": "90s",
}
# Until the daemon leads: a command waits a minute for its answer, and a machine that stands still may need that to
# start.
AWAIT_LEADER = """
import os, time, urllib.request
url, give_up_s = f"http://{os.environ['RECOVERYD_HTTP__LISTEN']}/readyz", time.monotonic() + 900
while True:
    try:
        urllib.request.urlopen(url, timeout=60)
        break
    except OSError:
        assert time.monotonic() < give_up_s
        time.sleep(0.2)
"""


def leading(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a script; those behind the start of a daemon begin when it leads."""
    for line in lines:
        yield line
        if line.startswith("recoveryd run"):
            yield f"{sys.executable} -c {shlex.quote(AWAIT_LEADER)}"


def test_the_readmes_commands_run_as_they_stand(bootstrap: str, unique: str, tmp_path: Path) -> None:
    """Both shell blocks, one after the other, with the config between them; only its topics have names of their own,
    and there are records since December.
    """
    readme = (ROOT / "README.md").read_text()
    copying, while_it_runs = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    (config,) = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL))
    config["monitor"]["canary"]["latency_slo"] = "10m"  # on a busy machine every record is late
    config["monitor"]["topics"][0]["topic"] = f"{unique}orders"
    lines = [line for line in copying.splitlines() if not line.startswith(("make setup", "export RECOVERYD"))]
    lines += while_it_runs.splitlines()
    seed(bootstrap, f"{unique}flights", limit=OLD)
    now_ms = int(time.time() * 1000)
    write_plain(writer(bootstrap), f"{unique}flights", range(4), range(NEW_EACH), start_ms=now_ms - NEW_EACH * 1000)
    create_topics(bootstrap, {f"{unique}orders": 1})
    (tmp_path / "recoveryd.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    environment = {
        **os.environ,
        **PATIENT,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "RECOVERYD_CONFIG": str(tmp_path / "recoveryd.yaml"),
        "RECOVERYD_BOOTSTRAP_SERVERS": bootstrap,
        "RECOVERYD_TOPICS__PREFIX": f"{unique}recovery.",
        "RECOVERYD_HTTP__LISTEN": f"127.0.0.1:{free_ports(1)[0]}",
        "RECOVERYD_WORK_DIR": str(tmp_path / "work"),
    }
    script = [
        "set -eu",
        "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT",  # where a command fails, nothing may go on behind it
        *leading(re.sub(r"\bflights\b", f"{unique}flights", line) for line in lines),
        "recoveryctl wait follow --for stopped --timeout 5m",
        "kill %1",
        "wait %1",
    ]  # fmt: skip
    told = output_of(["bash", "-c", "\n".join(script)], environment)
    assert "Verification: match" in told
    assert [len(records) for records in read_log(bootstrap, f"{unique}flights.v43").values()] == [NEW_EACH] * 4
    assert "28 min 48 s" in told
    assert answers_to(bootstrap, f"{unique}recovery.events.v1") == {
        ("replay", "command_accepted"): 3, ("throttle", "command_accepted"): 1, ("pause", "command_accepted"): 1,
        ("resume", "command_accepted"): 1, ("watch", "command_accepted"): 1, ("stop", "command_accepted"): 1,
    }  # fmt: skip


def answers_to(bootstrap: str, topic: str) -> Counter[tuple[str, str]]:
    """How often each verb was answered, and how, by the daemon's own answers."""
    records = [record for partition in read_log(bootstrap, topic).values() for record in partition]
    events = [json.loads(record.value or b"{}") for record in records]
    return Counter((e["data"]["verb"], e["type"].split(".")[-2]) for e in events if ".command_" in e["type"])


def test_the_demo_runs_whole_and_shows_the_proof(tmp_path: Path) -> None:
    """Runs as after `make setup`: in its own home, with jars that were fetched before, and leaves nothing behind."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RECOVERYD_")},
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "RECOVERYD_CACHE_DIR": str(default_cache_dir()),
    }
    for folder in ("home", "tmp"):
        (tmp_path / folder).mkdir()
    told = output_of([sys.executable, "-m", "recoveryd_sandbox.demo"], environment)
    assert told.count("completed - zero_lag: 336,776 records copied and verified (match)") == 2, told
    assert told.count("verification by an independent reader: match") == 2
    assert told.count("offsets = copied + filtered + skipped + lost + unexplained") == 2
    assert "paused, drained, exact positions:" in told
    signal = r"(?:lag:\S+|produce_latency)"
    assert re.search(
        rf"^the replay gives way: \S+ to \S+ MB/s, since main: {signal} is at \S+ of its SLO", told, re.MULTILINE
    )
    assert [line for line in told.splitlines() if line.startswith(("holds", "broken"))] == [
        "holds: the replay gave way to the burst",
        "holds: it came back by itself when the board had caught up",
        "holds: both recoveries are completed and proved",
        "holds: their lag is zero",
        "holds: the pause was drained",
        "holds: no live record failed",
        "holds: live traffic kept its SLO, 95 % of the time at least",
    ]
    assert list((tmp_path / "tmp").glob("recoveryd-*")) == []


def output_of(command: list[str], environment: dict[str, str]) -> str:
    """The output; the exit code must be 0."""
    running = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = running.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        raise AssertionError(f"{command} took longer than {DEADLINE_S} s: {running.communicate()[0]}") from None
    assert running.returncode == 0, told
    return told

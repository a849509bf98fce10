"""How the process starts, and what ends it with which exit code. The parts are fakes; the real ones are started in
tests/integration.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from recoveryd.app import serve as serving
from recoveryd.app.serve import EXIT_BROKEN, EXIT_CLEAN, EXIT_CONFIG, EXIT_LEFT
from recoveryd.app.worker import FeedConfig
from recoveryd.errors import ClusterProblem, ConfigProblem, Fenced, OwnTopicProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.settings import load
from recoveryd.settings.kafka_properties import ClientAccess
from tests.runtime.fakes import within

SETTINGS = load(None, "127.0.0.1:1", env={"RECOVERYD_WORK_DIR": tempfile.gettempdir()})


class Closable:
    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


class FakePosts:
    def __init__(self) -> None:
        self.drained_s: list[float] = []

    async def close(self, drain_s: float) -> None:
        self.drained_s.append(drain_s)


@dataclass
class Script:
    """What the parts do: the check of the own topics raises `topics` one after the other, the loop raises `ends`.
    `hangs`: what never comes back.
    """

    topics: list[Exception] = field(default_factory=list)
    hangs: str = ""
    ends: Exception | None = None
    listen: OSError | None = None
    ignores_stop: bool = False


class FakeDaemon:
    """All parts in one object; names as in `recoveryd.bootstrap.daemon.Daemon`."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.stopping = asyncio.Event()
        self.interpreter, self.progress, self.jobs, self.journal = Closable(), Closable(), Closable(), Closable()
        self.applications, self.posts = Closable(), FakePosts()
        self.secret_holders = SimpleNamespace(accesses={"main": SETTINGS.access("main")}, main_renewed=[], asked=[])
        self.readings = ()
        self.unit_files, self.asked = self, asyncio.Event()
        self.secret_files = self
        self.runtime = self.intake = self.collector = self.server = self.clusters = self.pulse = self.ticker = self
        self.port, self.closed, self.log = 1, 0, list[str]()
        self.fed: FeedConfig | None = None
        self.forgot_tokens = 0
        self.waits = asyncio.Event()

    async def start(self) -> None:
        if self.script.listen:
            raise self.script.listen

    async def check_own_topics(self) -> None:
        if self.script.topics:
            raise self.script.topics.pop(0)
        if self.script.hangs == "check":
            await asyncio.Event().wait()

    async def run(self) -> None:
        """The loop, the ticker and the collector."""
        if self.script.ends is not None:
            raise self.script.ends
        self.waits.set()
        await self.stopping.wait()
        if self.script.ignores_stop:
            await asyncio.sleep(60)

    async def catch_up(self) -> None:
        return

    async def close(self) -> None:
        self.closed += 1

    def stop(self) -> None:
        self.log.append("stop")
        self.stopping.set()

    def ask(self) -> None:
        self.asked.set()

    def beat(self) -> None:
        return

    def assigned(self) -> None:
        return

    def revoked(self) -> None:
        return


class FakeFeed:
    def __init__(self, config: FeedConfig, daemon: Any, _leadership: Any) -> None:
        self.script, self.daemon = daemon.script, daemon
        daemon.fed = config

    async def start(self) -> None:
        if self.script.hangs == "group":
            await asyncio.Event().wait()

    async def watch(self) -> None:
        await asyncio.sleep(60)

    async def stop(self, timeout_s: float) -> None:
        return

    def forget_token(self) -> None:
        self.daemon.forgot_tokens += 1

    def take_login(self, _access: Any) -> None:
        return


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch):
    def made(script: Script) -> FakeDaemon:
        fake = FakeDaemon(script)
        monkeypatch.setattr(serving, "build", lambda *_: fake)
        monkeypatch.setattr(serving, "Feed", FakeFeed)
        monkeypatch.setattr(serving, "RETRY_S", 0.001)
        monkeypatch.setattr(serving, "ROUND_LIMIT_S", 0.05)
        return fake

    return made


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (Script(listen=OSError(98, "Address already in use")), EXIT_CONFIG),
        (Script(topics=[OwnTopicProblem(["recovery.status.v1 is missing."])]), EXIT_CONFIG),
        (Script(topics=[ClusterProblem("no", code=Code.NOT_AUTHORISED, retriable=False)]), EXIT_BROKEN),
        (Script(ends=Fenced()), EXIT_BROKEN),
        (Script(ends=RecoverydError(Code.COMMITS_STALLED)), EXIT_BROKEN),
        (Script(ends=ZeroDivisionError("a bug")), EXIT_BROKEN),
        (Script(ends=ConfigProblem("a certificate is not usable")), EXIT_CONFIG),
        (Script(ends=ClusterProblem("a file is wrong", code=Code.CONFIG_INVALID, retriable=False)), EXIT_CONFIG),
        (Script(ends=ClusterProblem("a file is being replaced", code=Code.CONFIG_INVALID)), EXIT_BROKEN),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
async def test_what_ends_the_daemon_gives_the_exit_code_and_everything_is_closed(
    make, script: Script, code: int
) -> None:
    fake = make(script)
    assert await within(serving.serve(SETTINGS, lambda: SETTINGS)) == code
    parts = (fake.interpreter, fake.progress, fake.jobs, fake.journal, fake.applications)
    assert [part.closed for part in parts] == [1, 1, 1, 1, 1]
    assert fake.closed == 3, "clusters, collector and server"


TLS = "    security.protocol: SSL\n    ssl.%s.location: lost.pem\nhttp: {listen: '127.0.0.1:0'}\n"
WEBHOOK = "webhooks: {ops: {url: 'https://ops.example.org/', secret_file: key}}\n"
UNIT = "units: {u: {kind: group, group: g, inputs: [t], control: {%s}}}\n"


@pytest.mark.parametrize(
    ("text", "code", "names"),
    [
        (WEBHOOK, "RCV-4003", "webhooks.ops.secret_file"),
        ("units: {u: {kind: streams, group: g, inputs: [t], topology: lost}}\n", "RCV-4001", "lost: No such file"),
        (UNIT % "kind: process, start: [run], environment: {A: {file: lost}}", "RCV-4003", "u.control.environment.A"),
        (TLS % "truststore", "RCV-4003", "ssl.truststore.location names"),
        (TLS % "keystore", "RCV-4003", "ssl.keystore.location names"),
        (UNIT % "kind: kubernetes, workload: deployment/a, kubeconfig: lost", "RCV-4003", "u.control.kubeconfig"),
    ],
)
async def test_what_is_wrong_in_the_files_of_a_config_is_told_and_ends_it_for_good(
    text: str, code: str, names: str, tmp_path: Path
) -> None:
    path = tmp_path / "recoveryd.yaml"
    path.write_text("clusters:\n  main:\n    bootstrap.servers: 127.0.0.1:1\n" + text)
    settings = load(path, env={"XDG_STATE_HOME": str(tmp_path)})
    with capture_logs() as logged:
        assert await within(serving.serve(settings, lambda: settings)) == EXIT_CONFIG
    [told] = [line for line in logged if line["log_level"] == "error"]
    assert told["code"] == code
    assert names in told["event"]
    assert told["hint"], "it says the next step"


@pytest.mark.parametrize("place", ["file", "file/work", "closed", "closed/work"])
async def test_a_work_dir_that_cannot_be_written_is_a_wrong_config(make, place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(mode=0o500)
    if place.startswith("closed") and os.access(tmp_path / "closed", os.W_OK):
        pytest.skip("this user may write everywhere")
    fake = make(Script())
    settings = load(None, "127.0.0.1:1", env={"RECOVERYD_WORK_DIR": str(tmp_path / place)})
    with capture_logs() as logged:
        assert await within(serving.serve(settings, lambda: settings)) == EXIT_CONFIG
    assert [(line["code"], line["hint"]) for line in logged] == [
        ("RCV-4003", "Correct its owner, or set `work_dir` to a folder that the daemon may write to.")
    ]
    assert f"work_dir {tmp_path / place} is not usable: " in logged[0]["event"]
    assert fake.closed == 3, "clusters, collector and server"


async def test_the_feed_gets_the_times_of_the_client_properties(make) -> None:
    fake, tuned = make(Script(ends=Fenced())), {"request.timeout.ms": "45000", "metadata.max.age.ms": "60000"}
    fake.secret_holders.accesses["main"] = ClientAccess("127.0.0.1:1", tuning=tuned)
    await within(serving.serve(SETTINGS, lambda: SETTINGS))
    assert fake.fed.request_timeout_s == 45.0
    assert fake.fed.tuning == {"consumer_metadata_max_age_ms": 60_000, "producer_metadata_max_age_ms": 60_000}


async def test_a_broker_that_comes_late_is_waited_for(make) -> None:
    fake = make(Script(topics=[ClusterProblem("no broker"), ClusterProblem("no broker")], ends=Fenced()))
    assert await within(serving.serve(SETTINGS, lambda: SETTINGS)) == EXIT_BROKEN
    assert fake.script.topics == []
    assert fake.log == ["stop"], "it had got as far as running"


async def test_a_broker_that_never_comes_is_given_up_after_a_minute(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "BROKER_PATIENCE_S", 0.0)
    fake = make(Script(topics=[ClusterProblem("no broker")] * 3))
    assert await within(serving.serve(SETTINGS, lambda: SETTINGS)) == EXIT_BROKEN
    assert len(fake.script.topics) == 2


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (Script(hangs="check"), EXIT_BROKEN),
        (Script(topics=[ClusterProblem("no broker")] * 1_000), EXIT_BROKEN),
        (Script(topics=[ClusterProblem("no broker")], hangs="check"), EXIT_BROKEN),
        (Script(hangs="group"), EXIT_LEFT),
    ],
)
async def test_a_run_for_a_while_waits_for_a_broker_no_longer_than_its_time(
    make, monkeypatch: pytest.MonkeyPatch, script: Script, code: int
) -> None:
    fake = make(script)
    monkeypatch.setattr(serving, "RETRY_S", 3_600.0)
    assert await within(serving.serve(SETTINGS, lambda: SETTINGS, 0.05)) == code
    assert fake.closed == 3, "clusters, collector and server"


@pytest.mark.parametrize("ignores_stop", [False, True])
async def test_a_wish_to_stop_ends_it_cleanly_even_when_a_round_hangs(make, *, ignores_stop: bool) -> None:
    fake = make(Script(ignores_stop=ignores_stop))
    running = asyncio.create_task(serving.serve(SETTINGS, lambda: SETTINGS))
    await within(fake.waits.wait())
    assert not running.done()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await within(running) == EXIT_CLEAN
    assert fake.log == ["stop"]
    assert fake.posts.drained_s == [serving.GROUP_LIMIT_S], "webhooks hear of what happened before it ends"


async def test_a_wish_to_stop_is_heard_while_the_group_is_being_joined(make) -> None:
    fake = make(Script(hangs="group"))
    running = asyncio.create_task(serving.serve(SETTINGS, lambda: SETTINGS))
    await within(fake.waits.wait())
    os.kill(os.getpid(), signal.SIGTERM)
    assert await within(running) == EXIT_CLEAN
    assert (fake.log, fake.closed) == (["stop"], 3)


async def test_a_hangup_asks_for_the_units_again_and_ends_nothing(make) -> None:
    fake = make(Script())
    running = asyncio.create_task(serving.serve(SETTINGS, lambda: SETTINGS))
    await within(fake.waits.wait())
    os.kill(os.getpid(), signal.SIGHUP)
    await within(fake.asked.wait())
    assert not running.done()
    assert fake.forgot_tokens == 1
    os.kill(os.getpid(), signal.SIGTERM)
    assert await within(running) == EXIT_CLEAN


async def test_a_hangup_that_came_while_the_daemon_started_is_made_good_for(make) -> None:
    fake = make(Script())
    running = asyncio.create_task(serving.serve(SETTINGS, lambda: SETTINGS, was_hung_up=lambda: True))
    await within(fake.asked.wait())
    await within(fake.waits.wait())
    os.kill(os.getpid(), signal.SIGTERM)
    assert await within(running) == EXIT_CLEAN


EARLY_HANGUP = """
import os, signal
import recoveryd.__main__ as program

def run(_options, was_hung_up):
    assert not was_hung_up()
    os.kill(os.getpid(), signal.SIGHUP)
    return 40 + was_hung_up()

program.run = run
program.main(["run"])
"""


def test_a_hangup_before_the_config_is_read_does_not_end_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", EARLY_HANGUP], check=False, timeout=60)
    assert ended.returncode == 41

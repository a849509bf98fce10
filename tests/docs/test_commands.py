"""The documents' commands: those of the README run as they stand, on a real broker with a real daemon; every other one is at least understood."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from daemon.cli.app import app
from sandbox.ports import free_ports
from sandbox.seed import seed

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
DEADLINE_S = 180


def commands_of(path: Path) -> list[str]:
    """Lines of code blocks that call recoveryctl, continued lines joined, comments cut."""
    text = path.read_text().replace("\\\n", " ")
    lines = [
        line.strip() for line in re.findall(r"^(?: {4}|)(?:\$ )?((?:[A-Z_]+=\S+ )*recoveryctl .*)$", text, re.MULTILINE)
    ]
    return [line.split(" #")[0].strip() for line in lines]


COMMANDS = [(path.relative_to(ROOT).as_posix(), command) for path in DOCUMENTS for command in commands_of(path)]


def test_the_documents_name_commands() -> None:
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("document", "command"), COMMANDS)
def test_each_command_of_the_documents_is_understood(document: str, command: str) -> None:
    for part in command.split("&&"):
        words = shlex.split(part.replace("$(", "").replace(")", ""))
        if "recoveryctl" not in words or "..." in words:
            continue
        parse(typer.main.get_command(app), [w for w in words[words.index("recoveryctl") + 1 :] if w not in {"&", "|"}])


def parse(command: Any, words: list[str]) -> None:
    """Walk down the groups and parse the last command's words; wrong options raise."""
    context = command.make_context("recoveryctl", list(words), resilient_parsing=False)
    while hasattr(context.command, "resolve_command"):
        name, sub, left = context.command.resolve_command(context, [*context._protected_args, *context.args])
        context = sub.make_context(name, list(left), parent=context)


def test_a_command_with_a_wrong_option_is_not_understood() -> None:
    for words in (["replay", "--nonsense"], ["nonsense"], ["topics", "apply", "--nonsense"]):
        with pytest.raises(Exception, match="nonsense"):
            parse(typer.main.get_command(app), words)


@pytest.mark.e2e
def test_the_readmes_commands_run_as_they_stand(bootstrap: str, unique: str, tmp_path: Path) -> None:
    block = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    lines = [line for line in block.group(1).splitlines() if not line.startswith(("make setup", "export RECOVERYD"))]
    seed(bootstrap, "flights")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "RECOVERYD_BOOTSTRAP_SERVERS": bootstrap,
        "RECOVERYD_TOPICS__PREFIX": f"{unique}recovery.",
        "RECOVERYD_HTTP__LISTEN": f"127.0.0.1:{free_ports(1)[0]}",
        "RECOVERYD_WORK_DIR": str(tmp_path / "work"),
    }
    script = "set -eu\n" + "\n".join(lines).replace("flights.v4", f"{unique}flights.v4") + "\nkill %1\nwait %1\n"
    running = subprocess.Popen(
        ["bash", "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = running.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        raise AssertionError(
            f"the README's commands took longer than {DEADLINE_S} s: {running.communicate()[0]}"
        ) from None
    assert running.returncode == 0, told
    assert "Verification: match" in told

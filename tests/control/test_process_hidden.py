"""`control: process` under a service manager that gives each start of a daemon its own user namespace and a /proc that
hides: what the daemon before started cannot be seen, and runs.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoveryd.adapters.control.proc_table import marked, send
from recoveryd.adapters.control.process_file import read_note
from recoveryd.adapters.control.process_sight import MARK
from recoveryd.units.control import Desired
from tests.control.asking import until
from tests.patience import patient_s

# As systemd makes it with ProtectProc=invisible and PrivateUsers=yes, for a daemon of the user root.
# The group that may see all is by default that of root.
HIDE = "mount -t proc -o hidepid=2,gid=65534 proc /proc && exec "
IN_NAMESPACE = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
OWN_USERS = 'unshare --user --map-root-user "$0" "$@"'
SEES_OWN = 'setpriv --inh-caps=-all --bounding-set=-all "$0" "$@"'
DAEMON = """
import asyncio, json, os, pathlib, sys
from recoveryd.adapters.control.process import ProcessApplications
from recoveryd.adapters.control.process_sight import ProcessApplication
from recoveryd.units.control import Desired, Wish
folder, *wishes = sys.argv[1:]
async def main():
    application = ProcessApplication("app", ("sleep", "3600"), pathlib.Path(folder), steady_s=0.2)
    control = ProcessApplications([application], pathlib.Path(folder), folder, os.environ, lambda: 1)
    told = [(await control.look("app")).state]
    for wanted in wishes:
        told.append((await control.ask(Wish("app", Desired(wanted), "w", f"{os.getpid()} {wanted}", 0))).state)
    print(json.dumps(told), flush=True)
    os._exit(0)
asyncio.run(main())
"""


def can_hide() -> bool:
    if os.geteuid() != 0:
        return False
    with contextlib.suppress(OSError):
        made = subprocess.run([*IN_NAMESPACE, f"{HIDE}{OWN_USERS}", "true"], capture_output=True, check=False)
        return made.returncode == 0
    return False


pytestmark = pytest.mark.skipif(not can_hide(), reason="makes namespaces, for which it has to be root on Linux")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "app"
    for process in marked({f"{MARK}=app of {tmp_path}"}):
        send(process, signal.SIGKILL)


async def daemon(home: Path, run: str, *wishes: Desired) -> list[str]:
    """What one daemon after the other says; its application outlives it."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = await asyncio.create_subprocess_exec(
        *IN_NAMESPACE, f"{HIDE}{run}", sys.executable, "-c", DAEMON, str(home.parent), *wishes,
        env=environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(asked.communicate(), patient_s(20))
    assert asked.returncode == 0
    return list(json.loads(out.splitlines()[-1]))


@pytest.mark.parametrize("desired", list(Desired))
async def test_a_daemon_of_another_user_namespace_neither_takes_it_for_stopped_nor_starts_a_second(
    home: Path, desired: Desired
) -> None:
    assert await daemon(home, OWN_USERS, Desired.RUNNING) == ["stopped", "running"]
    note = read_note(home)
    assert await daemon(home, OWN_USERS, desired) == ["unknown", "unknown"]
    assert read_note(home) == note, "it is not forgotten, and no other was started"
    assert note.pid is not None
    os.kill(note.pid, 0)


async def test_a_proc_that_only_hides_other_users_shows_it_and_it_can_be_stopped(home: Path) -> None:
    assert await daemon(home, SEES_OWN, Desired.RUNNING) == ["stopped", "running"]
    assert await daemon(home, SEES_OWN, Desired.STOPPED) == ["running", "stopped"]


async def test_once_it_has_ended_it_is_stopped(home: Path) -> None:
    await daemon(home, OWN_USERS, Desired.RUNNING)
    pid = read_note(home).pid
    assert pid is not None
    os.killpg(pid, signal.SIGKILL)
    await until(lambda: not Path(f"/proc/{pid}").exists(), "nobody has to wait for it")
    assert await daemon(home, OWN_USERS) == ["stopped"]

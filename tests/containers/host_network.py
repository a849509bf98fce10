"""What a Docker engine changes in the host's network, and how to undo it.

An engine that is started by hand sets the FORWARD policy to DROP, switches forwarding on, and leaves its chains, rules
and bridges behind when it ends. `remember()` notes what was there before, `put_back` undoes what came since and is
Docker's: a chain or rule named after it, or one about a bridge that was not there. Nothing else is touched.
"""

import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = ("iptables", "ip6tables")
_TABLES = ("filter", "nat", "raw")
_FORWARD_SWITCH = Path("/proc/sys/net/ipv4/ip_forward")
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class HostNetwork:
    """`rules`: lines of `iptables -S` by (program, table). `bridges`: names. `forwarding`: "0" or "1"."""

    rules: dict[tuple[str, str], tuple[str, ...]]
    bridges: frozenset[str]
    forwarding: str


def remember() -> HostNetwork:
    """The present state. A program or table that is not there is left out."""
    rules = {}
    for program in _PROGRAMS:
        for table in _TABLES:
            lines = _list_rules(program, table)
            if lines is not None:
                rules[program, table] = lines
    bridges = frozenset(path.parent.name for path in Path("/sys/class/net").glob("*/bridge"))
    return HostNetwork(rules, bridges, _FORWARD_SWITCH.read_text().strip())


def put_back(before: HostNetwork) -> list[str]:
    """Undo what Docker added since `before`; what could not be undone is returned, one line each (empty = all is as it
    was).
    """
    now = remember()
    new_bridges = now.bridges - before.bridges
    for key, lines in now.rules.items():
        _restore_table(*key, _new_docker_lines(lines, before.rules.get(key, ()), new_bridges))
        for policy in set(before.rules.get(key, ())) - set(lines):
            if policy.startswith("-P "):
                _run(key[0], "-t", key[1], *shlex.split(policy))
    for bridge in new_bridges:
        _run("ip", "link", "delete", bridge)
    if now.forwarding != before.forwarding:
        _FORWARD_SWITCH.write_text(before.forwarding)
    return differences(before, remember())


def differences(before: HostNetwork, after: HostNetwork) -> list[str]:
    """One line per difference that is Docker's: policies, its chains and rules, bridges, forwarding."""
    found = [f"bridge {name} is still there" for name in sorted(after.bridges - before.bridges)]
    for (program, table), lines in after.rules.items():
        old = before.rules.get((program, table), ())
        left = _new_docker_lines(lines, old, after.bridges - before.bridges)
        left += [line for line in lines if line.startswith("-P ") and old and line not in old]
        found += [f"{program} -t {table} {line}" for line in left]
    if before.forwarding != after.forwarding:
        found.append(f"ip_forward is {after.forwarding}, was {before.forwarding}")
    return found


def _new_docker_lines(now: tuple[str, ...], before: tuple[str, ...], bridges: frozenset[str]) -> list[str]:
    """`-N` and `-A` lines that came since and name a Docker chain or one of the new bridges."""
    marks = ("DOCKER", "docker0", *bridges)
    return [line for line in now if line not in before and line[:2] in {"-N", "-A"} and any(m in line for m in marks)]


def _restore_table(program: str, table: str, new_lines: list[str]) -> None:
    for line in new_lines:
        if line.startswith("-A "):
            _run(program, "-t", table, *shlex.split("-D" + line[2:]))
    for line in new_lines:
        if line.startswith("-N "):
            _run(program, "-t", table, "-X", line[3:])


def _list_rules(program: str, table: str) -> tuple[str, ...] | None:
    if shutil.which(program) is None:
        return None
    done = subprocess.run([program, "-t", table, "-S"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    return tuple(done.stdout.splitlines()) if done.returncode == 0 else None


def _run(*command: str) -> None:
    """Run one step. If it fails, a difference remains at the end, so its exit code is not checked."""
    subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)

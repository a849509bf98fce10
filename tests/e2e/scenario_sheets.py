"""The sheets that `recoveryctl scenarios ID` prints, followed step by step: each command as it stands, by somebody who
has only the config in their environment. What a person does besides is a hook of the test.

`FOLLOWED` and `NOT_FOLLOWED` together name every step of every row; `tests/docs/test_scenarios.py` holds them to that.
"""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Final

import typer

from recoveryd.cli.app import app
from recoveryd.scenarios.table import scenarios
from tests.e2e import forked_cli
from tests.patience import patient_s
from tools.scenarios_page import PAGE

Hook = Callable[[], object]

_ROOT = Path(__file__).resolve().parents[2]
_STEP_S = 120.0

# By story of `test_scenario_sheets.py`, the rows whose sheets it follows, in this order.
FOLLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "looks": (
        "S-RUN-20", "S-WIKI-0a", "S-WIKI-0b", "S-WIKI-0c", "S-WIKI-C2", "S-WIKI-3a", "S-WIKI-1j", "S-WIKI-2b", "S-RUN-5a", "S-RUN-8",
        "S-RUN-10", "S-RUN-12", "S-RUN-15", "S-RUN-18", "S-RUN-24", "S-RUN-25", "S-CASTLE-7", "S-CASTLE-8", "S-CASTLE-9", "S-OSO-1",
    ),
    "again": ("S-WIKI-1", "S-WIKI-1g", "S-CASTLE-5", "S-WIKI-7", "S-WIKI-1d", "S-WIKI-2"),
    "kept": ("S-WIKI-3", "S-OSO-17b", "S-RUN-26", "S-RUN-26b", "S-RUN-16", "S-RUN-21b"),
    "copies": (
        "S-WIKI-4b", "S-OSO-17a", "S-WIKI-5b", "S-WIKI-5c", "S-WIKI-C1", "S-WIKI-C1b", "S-WIKI-C1c", "S-WIKI-C3", "S-WIKI-4a",
        "S-WIKI-9", "S-RUN-5c", "S-RUN-11", "S-RUN-13", "S-RUN-29", "S-CASTLE-0", "S-CASTLE-1", "S-CASTLE-1a", "S-OSO-7",
    ),
    "approved": ("S-RUN-26a", "S-RUN-2", "S-RUN-6", "S-RUN-5d"),
    "runbooks": (
        "S-RUN-27", "S-OSO-9", "S-RUN-3", "S-RUN-5b", "S-RUN-7", "S-RUN-7a", "S-RUN-14", "S-RUN-21c", "S-RUN-21e", "S-RUN-1", "S-RUN-21a",
        "S-RUN-23", "S-WIKI-1e", "S-WIKI-4", "S-WIKI-5", "S-WIKI-6a", "S-RUN-22", "S-WIKI-C4", "S-CASTLE-2",
    ),
}  # fmt: skip

# Rows with steps that no story follows, and why.
NOT_FOLLOWED: Final[Mapping[str, str]] = {
    "S-RUN-30": "the game day needs the machine for itself, for hours",
    "S-RUN-21d": "its gates are green for half an hour; `tests/e2e/test_runbook.py` promotes a shadow without that",
    "S-WIKI-8": "the new version is ready after five minutes; `tests/e2e/test_upgrade_online.py` does it with less",
}

_ROW_ID = re.compile(r"\bS-[A-Z]+-\w+")
_OWN_WORDS = re.compile(r' --(?:reason|id) (?:"[^"]*"|\S+)')


def essence(step: str) -> str:
    """The step without what it is called and why it is done: where only that differs, to run one is to run the
    other.
    """
    return _OWN_WORDS.sub("", step)


def steps_on_the_page(row: str) -> tuple[str, ...]:
    """Of docs/scenarios.md."""
    text = (_ROOT / PAGE).read_text(encoding="utf-8")
    [section] = re.findall(rf"^### {re.escape(row)} .*?(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
    return tuple(re.findall(r"^ {4}(.*)$", section, re.MULTILINE))


@cache
def printed_steps() -> Mapping[str, tuple[str, ...]]:
    """By row, as the program prints them, which is as the page has them. Not for threads: it takes over stdout."""
    found = {}
    program = typer.main.get_command(app)
    for row in scenarios():
        with redirect_stdout(io.StringIO()) as sheet, suppress(SystemExit):
            program(["scenarios", row])
        parts = re.findall(r"^Steps\n((?: {2}.*\n)+)", sheet.getvalue(), re.MULTILINE)
        found[row] = tuple(line[2:] for part in parts for line in part.splitlines())
        assert found[row] == scenarios()[row].steps == steps_on_the_page(row)
    return found


class Operator:
    """Somebody in `folder`, with a config."""

    def __init__(self, folder: Path, config: Path, user: str = "ann") -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RECOVERYD_", "XDG_"))},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LOGNAME": user,
            "COLUMNS": "250",
            "RECOVERYD_CONFIG": str(config),
        }

    def run(self, step: str, codes: Collection[int] = (0,)) -> str:
        """What it says on stdout."""
        program, *words = shlex.split(step, comments=True)
        if program == "recoveryctl":
            code, told, noted = forked_cli.run(words, self.folder, self.environment, patient_s(_STEP_S))
        else:
            code, told, noted = self._start(step)
        print(f"$ {step}\n{told}{noted}")
        assert code in codes, f"{step}\nended with {code}:\n{told}{noted}"
        return told

    def _start(self, step: str) -> tuple[int, str, str]:
        with self.begin(step) as begun:
            try:
                told, noted = begun.communicate(timeout=patient_s(_STEP_S))
            except BaseException:
                begun.kill()
                raise
        return begun.returncode, told, noted

    def begin(self, step: str) -> subprocess.Popen[str]:
        """The command as it runs."""
        return subprocess.Popen(
            shlex.split(step, comments=True),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


class Sheets:
    """The sheets that one operator follows, and which they were."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.followed: list[str] = []
        self.printed = printed_steps()

    def follow(
        self,
        row: str,
        *,
        by_hand: Sequence[tuple[str, Hook]] = (),
        first: Mapping[str, Hook] | None = None,
        codes: Mapping[str, Collection[int]] | None = None,
    ) -> str:
        """All that its steps said. `by_hand`: what a person does, in the order in which a sheet says so, by a part of
        these words; `first`: what has to be so before a command, by a part of it; `codes`: how one may end, if not with
        0. A sheet that goes on from another one says so, and that one was followed before.
        """
        steps, told = self.printed[row], []
        hands = list(by_hand)
        for step in steps:
            if step.startswith("#"):
                others = _ROW_ID.findall(step)
                if others:
                    assert set(others) <= set(self.followed), f"{row}: {step}"
                    continue
                words, hook = hands.pop(0)
                assert words in step, f"{row}: {step}"
                hook()
                continue
            for words, hook in (first or {}).items():
                if words in step:
                    hook()
            allowed = next((found for words, found in (codes or {}).items() if words in step), (0,))
            told.append(self.operator.run(step, allowed))
        assert hands == [], f"{row} does not say {hands}"
        self.followed.append(row)
        return "\n".join(told)

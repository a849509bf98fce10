"""What the process of a daemon loads before it does anything. Each second here is one in which nobody leads."""

import json
import subprocess
import sys

import pytest

# What only verbs, pictures, Spark or a certain control of units need, and the sandbox.
NOT_OF_A_DAEMON = {"kubernetes", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark", "recoveryd_sandbox", "typer"}  # fmt: skip
OWN_NOT_LOADED = {"recoveryd.cli", "recoveryd.client", "recoveryd.plots", "recoveryd.scenarios", "recoveryd.simulation", "recoveryd.adapters.memory"}  # fmt: skip
CODE = """
import json, sys
import recoveryd.__main__, recoveryd.app.serve, recoveryd.log, recoveryd.settings
from recoveryd.wire.forms import CommandData

def below(kind):
    return [kind, *(one for child in kind.__subclasses__() for one in below(child))]

kinds = below(CommandData)
built = [kind.__name__ for kind in kinds if kind.__pydantic_complete__]
print(json.dumps([sorted(sys.modules), len(kinds), built]))
"""


@pytest.fixture(scope="module")
def seen() -> tuple[set[str], int, list[str]]:
    """Names of modules, how many kinds of commands' data there are, and which of them can be checked already."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=True)
    modules, kinds, built = json.loads(done.stdout)
    return set(modules), kinds, built


def test_a_daemon_loads_nothing_that_only_others_need(seen: tuple[set[str], int, list[str]]) -> None:
    modules, _, _ = seen

    assert {name.partition(".")[0] for name in modules} & NOT_OF_A_DAEMON == set()
    assert modules & OWN_NOT_LOADED == set()
    assert "recoveryd.bootstrap.daemon" in modules


def test_what_checks_the_data_of_a_command_is_not_made_before_one_comes(seen: tuple[set[str], int, list[str]]) -> None:
    _, kinds, built = seen

    assert kinds > 20
    assert built == []

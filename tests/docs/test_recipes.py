"""The recipes of CONTRIBUTING.md are true: each file they name is there, and each proof runs tests."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "pytest" in line
]
PROOFS = sorted({part.strip() for _, _, proof in ROWS for part in proof.strip("`").split("&&")})


def test_there_are_recipes() -> None:
    assert len(ROWS) > 10


@pytest.mark.parametrize(("change", "files"), [row[:2] for row in ROWS])
def test_each_file_of_a_recipe_is_there(change: str, files: str) -> None:
    named = [path for path in re.findall(r"`([\w/.]+)`", files) if "/" in path or path.endswith(".py")]
    assert named
    roots = (ROOT / "daemon" / "recoveryd", ROOT)
    here = {path for path in named if "NAME" in path or any((root / path).exists() for root in roots)}
    assert set(named) - here - {"capability.py", "effects.py", "kind.py"} == set(), change


@pytest.mark.parametrize("proof", PROOFS)
def test_each_proof_of_a_recipe_can_be_run(proof: str) -> None:
    words = shlex.split(proof)
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert words[1] in targets
        return
    assert words[:3] == [".venv/bin/python", "-m", "pytest"]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *words[3:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2_000:]

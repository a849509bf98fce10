"""The recipes of CONTRIBUTING.md are true: each file they name is there, and each proof runs tests."""

import json
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
COLLECT = """
import json, pytest, sys
codes = [int(pytest.main(["--collect-only", "-q", "-p", "no:unraisableexception", *words])) for words in json.loads(sys.argv[1])]
print(json.dumps(codes), file=sys.stderr)
"""


def test_there_are_recipes() -> None:
    assert len(ROWS) > 10


@pytest.mark.parametrize(("change", "files"), [row[:2] for row in ROWS])
def test_each_file_of_a_recipe_is_there(change: str, files: str) -> None:
    named = [path for path in re.findall(r"`([\w/.]+)`", files) if "/" in path or path.endswith(".py")]
    assert named
    roots = (ROOT / "daemon" / "recoveryd", ROOT)
    here = {path for path in named if "NAME" in path or any((root / path).exists() for root in roots)}
    assert set(named) - here - {"capability.py", "effects.py", "kind.py"} == set(), change


@pytest.mark.parametrize("proof", [proof for proof in PROOFS if proof.startswith("make ")])
def test_each_target_that_proves_a_recipe_is_there(proof: str) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert shlex.split(proof)[1] in targets


def test_each_proof_of_a_recipe_finds_tests() -> None:
    """All in one process of their own: most of them find the same tests, which are then loaded once."""
    proofs = {proof: shlex.split(proof) for proof in PROOFS if not proof.startswith("make ")}
    assert [words[:3] for words in proofs.values()] == [[".venv/bin/python", "-m", "pytest"]] * len(proofs)
    asked = json.dumps([words[3:] for words in proofs.values()])
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, asked], cwd=ROOT, capture_output=True, text=True, timeout=1_200, check=False
    )
    codes = done.stderr.splitlines()[-1:]
    assert codes == [json.dumps([0] * len(proofs))], f"{[*proofs]}: {codes}\n{done.stdout[-2_000:]}"

"""Each package says what lives in it and where to start, and what has to be complete names all of it."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from recoveryd.kernel.states import StopReason

ROOT = Path(__file__).resolve().parents[2]
DAEMON, JOBS = ROOT / "daemon" / "recoveryd", ROOT / "spark_jobs" / "recoveryd_jobs"
ROOMS = sorted(path.parent for root in (DAEMON, JOBS) for path in root.rglob("__init__.py"))
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
EVERYWHERE = {"log", "failpoints", "simulation"}  # used from any layer, or bound by a contract of its own


def names_in(value: Any) -> set[str]:
    return {name.strip() for text in value for name in text.split("|")}


def contract(name: str) -> Any:
    return next(found for found in LINTER["contracts"] if found["name"].startswith(name))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_package_says_what_it_is_and_names_modules_that_are_there(room: Path) -> None:
    told = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert told
    start = re.search(r"Start at (.*?)\.(?:\s|$)", told, re.DOTALL)
    for name in re.findall(r"`([\w./]+)`", start[1] if start else ""):
        path = Path(name if name.endswith(".py") else name.replace(".", "/"))
        places = [base / path for base in (room, DAEMON, JOBS)]
        assert any(place.exists() or place.with_suffix(".py").exists() for place in places), name


def test_every_package_of_the_daemon_has_its_layer() -> None:
    named = names_in(contract("Each layer imports below only")["layers"])
    there = {path.stem for path in DAEMON.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"}
    assert there - EVERYWHERE - {"__init__"} - {name.removeprefix("recoveryd.") for name in named} == set()


def test_every_package_of_the_daemon_is_on_the_map() -> None:
    named = set(re.findall(r"^    (\w+)/ ", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert {path.parent.name for path in DAEMON.glob("*/__init__.py")} - named == set()


def test_every_capability_and_kind_is_bound_to_be_pure() -> None:
    pure = names_in(contract("The core is pure")["source_modules"])
    found = {f"recoveryd.{path.parent.name}" for part in ("capability", "kind") for path in DAEMON.glob(f"*/{part}.py")}
    assert found - pure == set()


def test_all_of_the_jobs_but_their_contract_and_what_is_shared_is_barred_to_the_daemon() -> None:
    barred = set(contract("The daemon imports only the contract of the jobs")["protected_modules"])
    there = {path.stem for path in JOBS.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {f"recoveryd_jobs.{name}" for name in there - {"__init__", "contract", "shared"}} == barred


def test_every_reason_to_stop_is_explained() -> None:
    page = (ROOT / "docs" / "policies" / "auto-stop.md").read_text(encoding="utf-8")
    explained = {
        name for row in page.splitlines() if row.startswith("|") for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert {reason.value for reason in StopReason} - explained == set()

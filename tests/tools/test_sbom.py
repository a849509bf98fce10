"""The bill of materials lists what an installation has, in the versions that constraints.txt pins, and no tools."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools.sbom import OUT, needed, plain

ROOT = Path(__file__).resolve().parents[2]
PINNED = {
    plain(name): version
    for name, _, version in (line.partition("==") for line in (ROOT / "constraints.txt").read_text().split())
}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {plain(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in requirements}


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """As the program writes it."""
    folder = tmp_path_factory.mktemp("sbom")
    done = subprocess.run(
        [sys.executable, "-m", "tools.sbom"], cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads((folder / OUT).read_text(encoding="utf-8"))
    assert done.stdout == f"{OUT}: {len(read['components'])} components\n"
    return read


def test_each_component_has_the_version_that_is_pinned(bill: dict[str, Any]) -> None:
    found = {plain(component["name"]): component["version"] for component in bill["components"]}
    assert {name: PINNED.get(name) for name in found} == found
    assert all(component["purl"].startswith("pkg:pypi/") for component in bill["components"])


def test_all_that_the_product_depends_on_is_in_it_and_the_tools_of_developers_are_not(bill: dict[str, Any]) -> None:
    found = {plain(component["name"]) for component in bill["components"]}
    assert names(PROJECT["dependencies"]) - found == set()
    assert "librdkafka" not in found
    assert found & names(["pytest", "mypy", "ruff", "cyclonedx-bom", "mkdocs-material", "hypothesis"]) == set()


def test_what_a_dependency_brings_along_is_in_it(bill: dict[str, Any]) -> None:
    found = {plain(component["name"]) for component in bill["components"]}
    assert {"py4j", "pydantic-core", "multidict"} <= found, "of pyspark, pydantic and aiohttp"
    refs = {component["bom-ref"] for component in bill["components"]}
    edges = {entry["ref"]: set(entry.get("dependsOn", ())) for entry in bill["dependencies"]}
    assert set().union(*edges.values()) - refs == set()


def test_the_product_itself_is_what_it_is_about(bill: dict[str, Any]) -> None:
    about = bill["metadata"]["component"]
    assert (about["name"], about["version"]) == (PROJECT["name"], PROJECT["version"])


def test_a_dependency_that_is_not_installed_is_named() -> None:
    with pytest.raises(RuntimeError, match="not installed: no-such-package; run make setup"):
        needed(["typer>=0.29", "no-such-package>=1"])


def test_what_only_an_extra_or_another_system_brings_is_not_needed() -> None:
    assert "django" not in needed(["hypothesis>=6"]), "of an extra"
    assert "colorama" not in needed(["pytest>=9"]), "of Windows"
    assert {"pytest", "pluggy"} <= needed(["pytest>=9"])


def test_it_is_not_kept_in_the_repository() -> None:
    assert OUT.parts[0] == "build"
    assert "build/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()

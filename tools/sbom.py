"""`make sbom`: what is in an installation of recoveryd, as CycloneDX, in build/sbom. It is made anew for each build and
not kept in the repository.

cyclonedx-py looks at the environment; of what it finds, only what `dependencies` of pyproject.toml bring stays: the
tools of developers are not part of the product. Not in it: Java, Debian's packages of the image, and the jars inside
pyspark.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = ROOT / "pyproject.toml"
OUT: Final = Path("build/sbom/recoveryd.cdx.json")
_TIMEOUT_S: Final = 300.0


def make() -> dict[str, Any]:
    """The bill of this environment. Raises RuntimeError when the tool fails, or the result is not valid."""
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "environment",
        "--pyproject",
        str(PROJECT),
        "--spec-version",
        "1.6",
        "--no-validate",  # what is kept of it is validated below; to look at all that it found takes ten seconds more
    ]
    done = subprocess.run(
        [*command, "--output-reproducible", sys.executable],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"cyclonedx-py ended with {done.returncode}: {done.stderr.strip()}")
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    bill = only(json.loads(done.stdout), needed(project["dependencies"]), project["dependencies"])
    if (wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill))) is not None:
        raise RuntimeError(f"the bill is not valid: {wrong}")
    return bill


def needed(requirements: Sequence[str]) -> set[str]:
    """Names of all packages that these bring into this environment. The tool's own edges have those of every
    extra too.
    """
    found: set[str] = set()
    seen: set[str] = set()
    left = list(requirements)
    while left:
        wanted = Requirement(left.pop())
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        try:
            brought = distribution(wanted.name).requires or []
        except PackageNotFoundError:
            raise RuntimeError(f"not installed: {wanted.name}; run make setup") from None
        found.add(plain(wanted.name))
        extras = wanted.extras or {""}
        left += [line for line in brought if any(_applies(Requirement(line), extra) for extra in extras)]
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def only(bill: Mapping[str, Any], names: AbstractSet[str], first: Sequence[str]) -> dict[str, Any]:
    """`bill` with the components `names`; the product itself depends on `first`."""
    refs = {plain(component["name"]): component["bom-ref"] for component in bill["components"]}
    kept = {refs[name] for name in names}
    edges = [
        {**entry, "dependsOn": [ref for ref in entry.get("dependsOn", ()) if ref in kept]}
        for entry in bill["dependencies"]
        if entry["ref"] in kept
    ]
    root = bill["metadata"]["component"]["bom-ref"]
    direct = sorted({refs[plain(Requirement(line).name)] for line in first})
    return {
        **bill,
        "components": [component for component in bill["components"] if component["bom-ref"] in kept],
        "dependencies": [*edges, {"ref": root, "dependsOn": direct}],
    }


def plain(name: str) -> str:
    """A name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    bill = make()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(f"{OUT}: {len(bill['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())

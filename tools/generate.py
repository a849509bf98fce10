"""The list of all generated files of the repository, and the program that writes them.

`python -m tools.generate` writes them; with `--check` it writes nothing and lists those that are out of date. Names
choose some of them: `python -m tools.generate schemas cli`. Start it in the repository's root.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grafana.generate import boards
from tools import (
    acls_page,
    cli_page,
    config_reference,
    contract_page,
    film,
    kubernetes_files,
    scenarios_page,
    schemas,
    sizing_page,
)

Files = Mapping[Path, str]


@dataclass(frozen=True, slots=True)
class Generated:
    """`make` gives every file with its text. Other files in their folders that match `owned` are left over from earlier
    and go.
    """

    make: Callable[[], Files]
    owned: str = ""

    def stale(self) -> Mapping[Path, str | None]:
        """The files that are out of date, with the text that each should have; None = the file should not exist."""
        files = self.make()
        found: dict[Path, str | None] = {path: text for path, text in files.items() if _read(path) != text}
        if self.owned:
            there = {path for folder in {path.parent for path in files} for path in folder.glob(self.owned)}
            found |= dict.fromkeys(sorted(there - files.keys()))
        return found


GENERATED: Final[Mapping[str, Generated]] = {
    "schemas": Generated(schemas.make_files, "*"),
    "contract": Generated(contract_page.make_files),
    "config": Generated(config_reference.make_files),
    "cli": Generated(cli_page.make_files),
    "acls": Generated(acls_page.make_files),
    "scenarios": Generated(scenarios_page.make_files),
    "sizing": Generated(sizing_page.make_files),
    "film": Generated(film.make_files),
    "dashboards": Generated(boards.make_files, "*.json"),
    "kubernetes": Generated(kubernetes_files.make_files),
}


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 when `--check` found something."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description="Make what is made from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing, name what is out of date")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(GENERATED)}; all when left out")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - GENERATED.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    stale = {path: text for name in given.names or GENERATED for path, text in GENERATED[name].stale().items()}
    for path, text in stale.items():
        if given.check:
            print(f"{path} is out of date: run python -m tools.generate", file=sys.stderr)
        elif text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if given.check and stale else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

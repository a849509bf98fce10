"""Files of the repository that are made from the code: written when asked to, else compared, so that a test or a person sees which one is stale."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_or_check(files: Mapping[Path, str], arguments: Sequence[str], module: str) -> int:
    """`--write` makes them; without it, exit code 1 with the names of those that are not what the code says. `module` makes them anew."""
    if list(arguments) == ["--write"]:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        sys.stderr.write(f"{path} is out of date: run python -m {module} --write\n")
    return 1 if stale else 0

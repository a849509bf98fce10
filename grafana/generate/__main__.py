"""`python -m grafana.generate` writes `grafana/dashboards/*.json`; with `--check` it changes nothing and fails when one is not what the code says."""

import sys
from pathlib import Path

from grafana.generate.boards import FOLDER, rendered


def main(arguments: list[str]) -> int:
    stale = [name for name, text in rendered().items() if _read(FOLDER / name) != text]
    left_over = sorted(path.name for path in FOLDER.glob("*.json") if path.name not in rendered())
    if "--check" in arguments:
        for name in (*stale, *left_over):
            print(f"{name} is not what grafana/generate says: run `make docs`", file=sys.stderr)
        return 1 if stale or left_over else 0
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(rendered()[name], encoding="utf-8")
        print(f"wrote {FOLDER / name}")
    for name in left_over:
        (FOLDER / name).unlink()
    return 0


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

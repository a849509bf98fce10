# ruff: noqa: INP001, T201  (a script that stands alone inside the image; its output is for people)
"""Takes out of an installed PySpark what no job of this daemon can reach, to make the image smaller. Prints what went.

Run with the Python of the environment to trim. It names files by pattern, and a pattern that matches nothing is an
error: a new Spark release must be looked at, not trimmed by luck.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

# Whole purposes only, each with the reason why the daemon's jobs do without.
UNUSED = {
    "examples": "sample programs",
    "data": "sample data",
    "jars/rocksdbjni-*.jar": "state of streaming queries and of the history server",
    "jars/spark-mllib_*.jar": "machine learning",
    "jars/breeze*.jar": "machine learning",
    "jars/spire*.jar": "machine learning",
    "jars/cats-kernel_*.jar": "machine learning",
    "jars/hive-exec-*.jar": "Hive catalogue; sessions use the in-memory one",
    "jars/hive-metastore-*.jar": "Hive catalogue",
    "jars/spark-hive*.jar": "Hive catalogue",
    "jars/datanucleus-*.jar": "Hive catalogue",
    "jars/derby*.jar": "database of the Hive catalogue",
}


def main() -> int:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        print("there is no pyspark here", file=sys.stderr)
        return 1
    home = Path(spec.origin).parent
    freed_bytes = 0
    for pattern, reason in UNUSED.items():
        found = sorted(home.glob(pattern))
        if not found:
            print(f"{pattern} ({reason}) matches nothing in {home}", file=sys.stderr)
            return 1
        for path in found:
            freed_bytes += _remove(path)
    print(f"freed {freed_bytes / 1e6:.0f} MB of {home}")
    return 0


def _remove(path: Path) -> int:
    """Deletes a file or folder, returns how many bytes it held."""
    if path.is_file():
        size_bytes = path.stat().st_size
        path.unlink()
        return size_bytes
    size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    shutil.rmtree(path)
    return size_bytes


if __name__ == "__main__":
    sys.exit(main())

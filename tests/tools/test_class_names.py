"""Every class in daemon and jobs has a unique name: a reader of `Verdict` knows which one is meant, and
`recoveryd.runtime.tagged` finds classes by name.
"""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_two_classes_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for folder in ("daemon", "spark_jobs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    assert len(found) > 400
    assert {name: places for name, places in found.items() if len(places) > 1} == {}

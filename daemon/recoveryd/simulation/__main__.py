"""`python -m recoveryd.simulation`: the whole matrix, the gate, and with --variants the sensitivity of the controller. Exit 1 when the gate is missed."""

import argparse
import sys
import time

from recoveryd.simulation.matrix import TEST_SEEDS, run_matrix
from recoveryd.simulation.policies import BUDGET
from recoveryd.simulation.report import (
    SUMMARY_HEADER,
    check_rows,
    scenario_header,
    scenario_rows,
    summary_rows,
    text_table,
)
from recoveryd.simulation.study import run_study
from recoveryd.simulation.variants import VARIANTS

CHECK_HEADER = ("", "check", "found", "wanted")


def main() -> int:
    """Print tables to stdout."""
    parser = argparse.ArgumentParser(prog="python -m recoveryd.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(TEST_SEEDS), help="how many of the test seeds' range to use")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--variants", action="store_true", help="run the controller in every variant of the model, too")
    chosen = parser.parse_args()
    began_s = time.monotonic()
    study = run_study(seeds=chosen.seeds, processes=chosen.processes)
    _show(text_table(SUMMARY_HEADER, summary_rows(study.nominal)))
    _show(text_table(scenario_header(study.nominal), scenario_rows(study.nominal)))
    if study.scaled is not None:
        _show("capacity x5", text_table(SUMMARY_HEADER, summary_rows(study.scaled)))
        _show("baselines", text_table(CHECK_HEADER, check_rows(study.baselines)))
        _show("gate", text_table(CHECK_HEADER, check_rows(study.checks)))
    _show(f"{len(study.seeds)} seeds in {time.monotonic() - began_s:.1f} s")
    if chosen.variants:
        rows: list[tuple[str, ...]] = []
        for name, params in VARIANTS.items():
            matrix = run_matrix((BUDGET,), seeds=study.seeds, params=params, processes=chosen.processes)
            rows.extend((name, *row[1:]) for row in summary_rows(matrix))
        _show("variants", text_table(("variant", *SUMMARY_HEADER[1:]), rows))
    return 0 if study.passed else 1


def _show(*parts: str) -> None:
    sys.stdout.write("\n".join(parts) + "\n\n")


if __name__ == "__main__":
    sys.exit(main())

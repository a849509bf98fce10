"""How sensitive the controller is: one value of the simulated world is changed at a time, with the same controller.

`python -m tools.sensitivity` prints a row per variant; `recoveryctl simulate` judges the unchanged world.
"""

import sys
from dataclasses import replace

from recoveryd.simulation.matrix import TEST_SEEDS, run_matrix
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import BUDGET
from recoveryd.simulation.report import SUMMARY_HEADER, summary_rows, text_table

_BASE = ModelParams()
_PROCESSES = 2

VARIANTS: dict[str, ModelParams] = {
    "nominal": _BASE,
    **{f"delay {d} s": replace(_BASE, signal_delay_s=float(d)) for d in (2, 5, 20, 30, 60)},
    "period 15 s": replace(_BASE, signal_period_s=15),
    "period 30 s": replace(_BASE, signal_period_s=30),
    "noise x2": replace(_BASE, noise=2.0),
    "spikes 5 %": replace(_BASE, spikes=0.05),
    "spikes 15 %": replace(_BASE, spikes=0.15),
    "capacity x5": replace(_BASE, scale=5.0),
    "sharper knee": replace(_BASE, is_knee_squared=True),
    "baseline -26 %": replace(_BASE, baseline_error=0.74),
    "baseline +33 %": replace(_BASE, baseline_error=1.33),
    "slice 30 s": replace(_BASE, slice_s=30),
    "slice 60 s": replace(_BASE, slice_s=60),
    "slice not interruptible": replace(_BASE, is_slice_interruptible=False),
    "quota only": replace(_BASE, has_quota_actuator=True),
}


def main(seeds: int) -> None:
    rows: list[tuple[str, ...]] = []
    for name, params in VARIANTS.items():
        matrix = run_matrix((BUDGET,), seeds=TEST_SEEDS[:seeds], params=params, processes=_PROCESSES)
        rows.extend((name, *row[1:]) for row in summary_rows(matrix))
    print(text_table(("variant", *SUMMARY_HEADER[1:]), rows))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else len(TEST_SEEDS))

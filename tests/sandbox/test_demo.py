"""What the demo promises is judged, and its exit code says whether all of it held."""

from dataclasses import replace

import pytest

from recoveryd_sandbox.demo import Measured, is_as_promised, judged
from recoveryd_sandbox.demo_screen import Screen
from recoveryd_sandbox.foreground import run

DONE = {"state": "completed", "verification": {"result": "match"}, "progress": {"lag_records": 0}}
WELL = Measured((DONE, DONE), {"state": "paused"}, failed_records=0, over_slo_s=3.5, excused_s=0.0, seconds=70.0)
SLO = "live traffic kept its SLO, 95 % of the time at least"


pytestmark = pytest.mark.usefixtures("signals_as_before")


@pytest.mark.parametrize(
    ("measured", "exit_code", "broken"),
    [
        (WELL, 0, []),
        (replace(WELL, over_slo_s=3.6), 1, [SLO]),
        (replace(WELL, over_slo_s=10.0, excused_s=7.0), 0, []),
        (replace(WELL, failed_records=1), 1, ["no live record failed"]),
        (replace(WELL, paused=DONE), 1, ["the pause was drained"]),
        (
            replace(WELL, ended=(DONE, DONE | {"verification": {"result": "mismatch"}})),
            1,
            ["both recoveries are completed and proved"],
        ),
        (replace(WELL, ended=(DONE, DONE | {"progress": {"lag_records": 7}})), 1, ["their lag is zero"]),
    ],
)
def test_a_run_in_which_something_suffered_ends_with_1_and_says_what(
    measured: Measured, exit_code: int, broken: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen()

    ended = run(lambda: is_as_promised(screen, judged(screen, measured)), screen.say, screen.fail)

    told = capsys.readouterr()
    assert ended == exit_code
    assert [s for s in broken if f"Not as promised: {s}." not in told.out + told.err] == []
    assert (told.out + told.err).count("Not as promised") == len(broken)

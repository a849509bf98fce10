"""`make demo-app`, whole: what it promises, it compares with the topics themselves."""

import os
import sys
from pathlib import Path

import pytest

from recoveryd_sandbox.demo_app import Story
from recoveryd_sandbox.demo_screen import Screen
from recoveryd_sandbox.jars import default_cache_dir
from tests.e2e.test_readme import output_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]


def test_an_application_is_kept_mended_processed_again_and_put_back(tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RECOVERYD_")},
        "TMPDIR": str(tmp_path),
        "RECOVERYD_CACHE_DIR": str(default_cache_dir()),
    }
    told = output_of([sys.executable, "-m", "recoveryd_sandbox.demo_app"], environment)
    assert [line.removeprefix("holds: ") for line in told.splitlines() if line.startswith(("holds", "broken"))] == [
        "the savepoint is exact: it was stopped cleanly, and nobody wrote meanwhile",
        "the reset moved each offset, and the rollback put each one back",
        "all 100 sums in customer-totals.v2 are right",
        "customer-totals is as it was",
        "500 more orders count once each, on the state of before",
    ]
    assert list(tmp_path.glob("recoveryd-*")) == []


def test_a_promise_that_does_not_hold_is_said_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(None, None, Screen())
    story.promise("two and two are four", holds=True)
    story.promise("two and two are five", holds=False)
    story.screen.verdict(story.broken)
    told = capsys.readouterr().out
    assert "broken: two and two are five" in told
    assert "Not as promised: two and two are five." in told
    assert "Everything was as promised" not in told

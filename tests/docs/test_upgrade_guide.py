"""The guide to upgrades names the versions of records that this release really writes and reads."""

from pathlib import Path

import pytest

from recoveryd.app.serve import EXIT_BROKEN
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.status_topic import FORMAT, format_of
from recoveryd_jobs.contract import VERSION

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/upgrade-recoveryd.md").read_text(encoding="utf-8")


def row(topic: str) -> str:
    [found] = [line for line in PAGE.splitlines() if line.startswith(f"| `recovery.{topic}.v1`")]
    return found


def test_the_versions_of_records_are_those_of_this_release() -> None:
    assert f"`internal.format`, now {FORMAT}" in row("status")
    for topic in ("directives", "receipts"):
        assert f"`version`, now {VERSION}" in row(topic)


def test_a_journal_of_the_release_before_is_read_and_a_later_one_is_not() -> None:
    assert format_of({"internal": {"format": 1}}) == 1
    assert "1 (release 0.1.0) is read" in row("status")
    with pytest.raises(ValueError, match=str(FORMAT + 1)):
        format_of({"internal": {"format": FORMAT + 1}})
    assert f"ends with `{Code.INVARIANT_BROKEN.value}` and exit code {EXIT_BROKEN}" in row("status")

"""The guide to upgrades names the versions of records that this release really writes and reads."""

import re
from pathlib import Path

import pytest

from recoveryd.app.serve import EXIT_BROKEN
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.status_topic import FORMAT, format_of
from recoveryd_jobs.contract import VERSION

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/upgrade-recoveryd.md").read_text(encoding="utf-8")


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


def test_what_the_page_of_the_unit_asks_for_before_an_upgrade_is_said_where_the_upgrade_is() -> None:
    deploy = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
    [systemd] = re.findall(r"^## systemd\n(.*?)^## ", deploy, re.MULTILINE | re.DOTALL)
    assert "Whoever replaces a unit of before" in systemd
    [order] = re.findall(r"^## The order\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert "(../deploy.md#systemd)" in order


def test_rules_are_replaced_after_the_daemons_whose_series_they_need() -> None:
    [order] = re.findall(r"^## The order\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert order.index("Then the leader") < order.index("Rules and dashboards last")
    rules = (ROOT / "grafana/prometheus/recoveryd.rules.yml").read_text(encoding="utf-8")
    for alert in re.findall(r"`(Recoveryd\w+)`", order):
        assert f"- alert: {alert}\n" in rules

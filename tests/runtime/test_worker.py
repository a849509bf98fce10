"""The worker waits for the group's position after a rebalance."""

import asyncio
from pathlib import Path
from typing import Any

import faust
import pytest
from faust.tables.recovery import RebalanceAgain, Recovery

from recoveryd.app.worker import FeedConfig, make_app

LATE_S = 0.05


async def _recovery(tmp_path: Path) -> tuple[faust.App, Recovery]:
    app = make_app(FeedConfig(("127.0.0.1:1",), "control", "group", tmp_path, request_timeout_s=LATE_S / 10))
    tables: Any = app.tables
    return app, tables.recovery


async def test_a_position_that_is_told_after_the_request_time_out_is_taken(tmp_path: Path) -> None:
    _, recovery = await _recovery(tmp_path)
    await recovery._wait(asyncio.sleep(LATE_S), timeout=LATE_S / 10)


async def test_a_position_that_is_told_when_the_next_rebalance_has_begun_lets_nothing_in(tmp_path: Path) -> None:
    """Its partitions are not known yet, so that nothing else tells the wait of it."""
    app, recovery = await _recovery(tmp_path)
    told = asyncio.Event()
    waiting = asyncio.create_task(recovery._wait(told.wait()))
    await asyncio.sleep(0)
    app.on_rebalance_start()
    told.set()
    with pytest.raises(RebalanceAgain):
        await waiting

"""Every noun that is journaled or exchanged is the same after it went through bytes, so every field survives a restart.

The values are derived from the types, so a field that is added and not stored fails here.
"""

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recoveryd.kernel.state import DaemonRecord
from recoveryd.recovery.model import Recovery
from recoveryd.watches.model import Watch
from recoveryd.wire.status_topic import DAEMON_KEY, StatusFold, encode_daemon
from recoveryd_jobs import contract
from tests.builders.core import STATUS
from tests.wire.of_types import filled, filled_recoveries

_MUCH = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
# The records between daemon and jobs, each with its own version.
EXCHANGED = [
    kind
    for kind in vars(contract).values()
    if dataclasses.is_dataclass(kind) and "version" in {f.name for f in dataclasses.fields(kind)}
]


@_MUCH
@given(filled_recoveries().filter(lambda r: r.id != DAEMON_KEY))
def test_a_recovery_survives_a_restart(recovery: Recovery) -> None:
    assert STATUS.fold([STATUS.encode(recovery)]) == StatusFold({recovery.id: recovery}, DaemonRecord())


@_MUCH
@given(filled(Watch).filter(lambda w: w.id != DAEMON_KEY))
def test_a_watch_survives_a_restart(watch: Watch) -> None:
    assert STATUS.fold([STATUS.encode(watch)]) == StatusFold({watch.id: watch}, DaemonRecord())


@given(filled(DaemonRecord))
@example(DaemonRecord())
def test_the_record_of_the_daemon_survives_a_restart(record: DaemonRecord) -> None:
    assert STATUS.fold([encode_daemon(record)]) == StatusFold({}, record)


@pytest.mark.parametrize("kind", EXCHANGED, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_daemon_and_jobs_exchange_arrives_as_it_was_sent(kind: type, data: st.DataObject) -> None:
    sent: Any = dataclasses.replace(data.draw(filled(kind)), version=contract.VERSION)
    assert contract.decode(kind, contract.encode(sent)) == sent


def test_the_exchanged_records_are_all_of_them() -> None:
    assert {kind.__name__ for kind in EXCHANGED} >= {
        "JobSpec",
        "Directive",
        "LaneHeartbeat",
        "DriverHeartbeat",
        "Receipt",
    }

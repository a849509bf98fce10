"""A task of the proof obeys like a lane: it keeps its rate, pauses, resumes, stops and exits as directives say, and
reports its progress.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer

from recoveryd_jobs.clients import make_reader
from recoveryd_jobs.contract import LaneHeartbeat, PartitionRange, copy_client_id
from recoveryd_jobs.errors import JobError, Superseded
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.verify import ledger as proof_ledger
from recoveryd_jobs.verify.guest import Guest, Stopped
from recoveryd_jobs.verify.judge import judge
from recoveryd_jobs.verify.plan import make_plan, share_out
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.tasks import look_closer, show_share
from recoveryd_sandbox.ports import free_ports
from tests.builders.copying import Cluster, Recovery, rows
from tests.builders.proving import damaged
from tests.e2e.processes import wait_for
from tests.patience import patient_s

pytestmark = pytest.mark.broker

_RATE = 100.0


class Task:
    """The whole proof of a recovery as one task in a thread."""

    def __init__(self, recovery: Recovery, records_per_s: float | None = _RATE, **more: float) -> None:
        told = {"wanted": "verify", "max_records_per_s": records_per_s, "lease_ttl_ms": 600_000, **more}
        spec = replace(recovery.spec, directive=replace(recovery.spec.directive, **told))  # type: ignore[arg-type]
        plan = make_plan(spec, is_whole=True)
        [share] = share_out(spec, plan, 1)
        self.ended: object = None
        self._thread = threading.Thread(target=self._run, args=(spec, plan, share), daemon=True)
        self._thread.start()

    def _run(self, *args: object) -> None:
        try:
            self.ended = show_share(*args)  # type: ignore[arg-type]
        except (Stopped, Superseded) as told:
            self.ended = type(told)

    def wait(self) -> object:
        self._thread.join(patient_s(60))
        assert not self._thread.is_alive(), "the task did not end"
        return self.ended


def copied(cluster: Cluster, **more: object) -> Recovery:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(5_000))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 5_000)]], **more)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    return recovery


def in_state(state: str, sequence: int) -> object:
    def fits(beat: LaneHeartbeat) -> bool:
        return (beat.phase, beat.state) == ("verify", state) and beat.directive_sequence >= sequence

    return fits


def test_it_pauses_goes_on_and_stops_when_told_and_says_so(cluster: Cluster) -> None:
    recovery = copied(cluster)
    task = Task(recovery)
    first = recovery.await_heartbeat(in_state("verifying", 0))
    assert first.positions == ()
    sequence = recovery.direct("pause")
    paused = recovery.await_heartbeat(in_state("paused", sequence))
    assert paused.verified_records < 10_000
    assert paused.offsets_to_verify >= 10_000
    assert task.ended is None
    sequence = recovery.direct("verify", max_records_per_s=_RATE)
    recovery.await_heartbeat(in_state("verifying", sequence))
    sequence = recovery.direct("stop")
    assert task.wait() is Stopped
    recovery.await_heartbeat(in_state("done", sequence))


def test_it_says_when_only_its_rate_keeps_it_waiting(cluster: Cluster) -> None:
    recovery = copied(cluster)
    task = Task(recovery, 0.001)
    waiting = recovery.await_heartbeat(lambda beat: beat.phase == "verify" and beat.throttled)
    assert (waiting.state, waiting.verified_records < 100) == ("verifying", True)
    recovery.direct("stop")
    assert task.wait() is Stopped


def _step_on(guest: Guest) -> None:
    while True:
        guest.step()


def _begin_and_step_on(guest: Guest) -> None:
    """On a busy machine a short lease may be over before the first step."""
    guest.begin()
    _step_on(guest)


def test_it_obeys_and_reports_between_steps_that_read_nothing(cluster: Cluster) -> None:
    recovery = copied(cluster)
    guest = Guest(recovery.spec, 0, 1, 0)
    guest.begin()
    try:
        guest.step()
        beat = recovery.await_heartbeat(lambda beat: beat.phase == "verify" and beat.verified_steps == 1)
        assert (beat.state, beat.verified_records) == ("verifying", 0)
        sequence = recovery.direct("stop")
        with pytest.raises(Stopped):
            _step_on(guest)
        recovery.await_heartbeat(in_state("done", sequence))
    finally:
        guest.close()


def test_receipts_are_taken_apart_in_steps_that_are_told(cluster: Cluster) -> None:
    recovery = copied(cluster)
    told = recovery.ledger()[-1]
    recovery.write_receipts(replace(told, start=at, stop=at + 1) for at in range(5_000, 8_000))
    guest = Guest(recovery.spec, 0, 1, 0)
    guest.begin()
    try:
        before = guest._steps
        ledger = proof_ledger.load(recovery.spec, lambda _partition: True, guest.turn, lambda _size: None, guest.step)
        assert guest._steps - before >= 3, "one for each thousand, besides those of queries"
        ledger.close()
    finally:
        guest.close()


def test_it_leaves_when_nobody_leads_the_recovery_any_more(cluster: Cluster) -> None:
    recovery = copied(cluster)
    spec = replace(recovery.spec, orphan_after_ms=1_500, directive=replace(recovery.spec.directive, lease_ttl_ms=500))
    guest = Guest(spec, 0, 1, 0)
    try:
        with pytest.raises(Superseded):
            _begin_and_step_on(guest)
    finally:
        guest.close()


def test_it_does_not_begin_without_word_of_what_is_wanted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_jobs.directives._REFRESH_S", 0.2)
    monkeypatch.setattr("recoveryd_jobs.verify.guest.WORD_WAIT_S", 1.0)
    recovery = copied(cluster)
    away = {**recovery.spec.control.client, "bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    guest = Guest(replace(recovery.spec, control=replace(recovery.spec.control, client=away)), 0, 1, 0)
    try:
        with pytest.raises(JobError, match="could not be read"):
            guest.begin()
    finally:
        guest.close()


def test_it_leaves_for_a_newer_attempt(cluster: Cluster) -> None:
    recovery = copied(cluster)
    task = Task(recovery)
    recovery.await_heartbeat(in_state("verifying", 0))
    recovery.direct("run", attempt=2)
    assert task.wait() is Superseded


def test_silence_slows_it_down_and_then_rests_it_until_the_daemon_speaks(cluster: Cluster) -> None:
    recovery = copied(cluster)
    task = Task(recovery, lease_ttl_ms=1_500)
    silent = recovery.await_heartbeat(in_state("leaseless", 0))
    # What it has read by then is all that it reads: the next heartbeats say the same.
    recovery.await_heartbeat(lambda beat: beat.state == "leaseless" and len(at_rest(recovery)) >= 3)
    assert {beat.verified_records for beat in at_rest(recovery)} == {silent.verified_records}
    assert silent.verified_records < 10_000
    assert task.ended is None
    sequence = recovery.direct("verify")
    recovery.await_heartbeat(in_state("verifying", sequence))
    assert isinstance(task.wait(), Shown)


def at_rest(recovery: Recovery) -> list[LaneHeartbeat]:
    return [beat for beat in recovery.heartbeats() if (beat.phase, beat.state) == ("verify", "leaseless")]


def test_it_reads_records_only_under_the_client_id_of_the_copy_so_that_one_quota_limits_both(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides, and again what looks different."""
    recovery = copied(cluster)
    bad = damaged(recovery, lambda stored: stored[1:])
    under: list[str] = []

    def noted(client: Mapping[str, str], client_id: str, *more: Any, **options: Any) -> Consumer:
        under.append(client_id)
        return make_reader(client, client_id, *more, **options)

    for module in ("reader", "closer_look"):
        monkeypatch.setattr(f"recoveryd_jobs.verify.{module}.make_reader", noted)
    plan = make_plan(bad, is_whole=True)
    shares = share_out(bad, plan, 1)
    verdict = judge(bad, [show_share(bad, plan, share) for share in shares], ())
    assert verdict.questions
    both = len(under)
    assert look_closer(bad, plan, verdict.questions, 0, 1).differences
    assert both >= 2
    assert len(under) > both
    assert set(under) == {copy_client_id(bad.scope, bad.recovery)}


def test_it_reads_receipts_at_its_rate_and_under_the_name_of_the_copy_and_counts_them_as_no_progress(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery = copied(cluster, chunk=Recovery.chunk_limits(max_records=50))
    names = set[str]()

    def noted(client: Mapping[str, str], client_id: str, *rest: Any, **more: Any) -> Consumer:
        names.add(client_id)
        return make_reader(client, client_id, *rest, **more)

    monkeypatch.setattr(proof_ledger, "make_reader", noted)
    task = Task(recovery, None, max_bytes_per_s=1_000.0)  # a hundred receipts are half a minute
    waiting = recovery.await_heartbeat(lambda beat: beat.phase == "verify" and beat.throttled)
    assert (waiting.verified_records, waiting.verified_bytes, waiting.verified_offsets) == (0, 0, 0)
    assert (waiting.verified_steps > 0, names) == (True, {copy_client_id(recovery.spec.scope, recovery.spec.recovery)})
    recovery.direct("stop")
    assert task.wait() is Stopped


def test_its_part_of_the_rate_is_an_equal_one_until_each_task_beside_it_has_a_share(cluster: Cluster) -> None:
    """How many records it may read at once is its rate over a tenth of a second."""
    recovery = copied(cluster)
    spec = replace(recovery.spec, directive=replace(recovery.spec.directive, shares={0: 0.7, 1: 0.2, 2: 0.1}))
    guests = [Guest(spec, 0, 2, 9), Guest(spec, 4, 6, 0, 4)]

    def told(rate: float, shares: dict[int, float], *wanted: int) -> None:
        """Waits until each guest may read as much as it is `wanted` to with this directive; no two tell the same."""
        recovery.direct("verify", max_records_per_s=rate, shares=shares)
        for guest, most in zip(guests, wanted, strict=True):
            wait_for(lambda guest=guest, most=most: guest.turn() == most, 30)  # type: ignore[misc]

    recovery.direct("verify", max_records_per_s=100.0)
    for guest in guests:
        guest.begin()
    try:
        told(2_000.0, {}, 100, 100)
        told(8_000.0, {0: 0.9}, 400, 400)
        told(32_000.0, {0: 0.75, 1: 0.25}, 2_400, 1_600)
        told(38_000.0, {0: 0.5, 1: 0.0, 4: 0.25, 5: 0.25}, 1_900, 950)
    finally:
        for guest in guests:
            guest.close()

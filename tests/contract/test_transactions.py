"""Every way in which a transaction can end: a scripted client raises what a broker could answer, and the test looks at
what the broker holds at the end.

The real client's side of this is in `test_journal` and in the fault tests; here are the endings that no broker gives on
demand.
"""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from recoveryd.adapters.kafka import client, transactions
from recoveryd.adapters.kafka.transactions import OutgoingKafkaRecord, SessionLost, TransactionalWriter, Unsettled
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True)
NO_BROKER = KafkaError(KafkaError._TRANSPORT, "no broker")
MUST_ABORT = KafkaError(KafkaError.INVALID_TXN_STATE, "abort it", txn_requires_abort=True)
FENCED = KafkaError(KafkaError._FENCED, "another one", fatal=True)
INVALID_STATE = KafkaError(KafkaError.INVALID_TXN_STATE, "no such transaction", fatal=True)
REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no such right", txn_requires_abort=True)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")

FIRST, SECOND = [OutgoingKafkaRecord("t", b"k", b"1")], [OutgoingKafkaRecord("t", b"k", b"2")]


class Taken:
    """A record as a delivery report shows it."""

    def __init__(self, topic: str, offset: int) -> None:
        self._topic, self._offset = topic, offset

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class ScriptedProducer:
    """A client and its broker. `script` maps a call to what it raises, one entry per call, None = it works."""

    def __init__(self, script: dict[str, list[KafkaError | None]]) -> None:
        self.script = script
        self.calls: list[str] = []
        self.landed: list[bytes] = []
        self.written: list[bytes | None] = []
        self._open: list[bytes] = []

    def list_topics(self, _topic: str, timeout: float) -> None:
        self._play("meet")

    def init_transactions(self, _timeout_s: float) -> None:
        self._play("init")

    def begin_transaction(self) -> None:
        self._play("begin")
        self._open = []

    def produce(self, topic: str, value: bytes, on_delivery: Callable[..., None] | None = None, **_more: Any) -> None:
        self._play("produce")
        if on_delivery is not None:
            on_delivery(None, Taken(topic, len(self.landed) + len(self._open)))
        self._open.append(value)
        self.written.append(value)

    def commit_transaction(self, _timeout_s: float) -> None:
        self._play("commit")
        self.landed += self._open
        self._open = []

    def abort_transaction(self, _timeout_s: float) -> None:
        self._play("abort")
        self._open = []

    def poll(self, _timeout_s: float) -> int:
        self._play("poll")
        return 0

    def flush(self, _timeout_s: float) -> int:
        self._play("flush")
        return 0

    def purge(self) -> None:
        """Nothing to do: no record is queued."""

    def close(self) -> None:
        self.calls.append("close")

    def _play(self, call: str) -> None:
        self.calls.append(call)
        answers = self.script.get(call, [])
        error = answers.pop(0) if answers else None
        if error is not None:
            raise KafkaException(error)


Make = Callable[..., tuple[TransactionalWriter, ScriptedProducer]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(transactions, "_RETRY_S", 0.0)
    monkeypatch.setattr(client, "make_admin", lambda _properties: ScriptedProducer({"meet": [NO_BROKER]}))

    def made(
        deadline_s: float = 5.0, **script: list[KafkaError | None]
    ) -> tuple[TransactionalWriter, ScriptedProducer]:
        producer = ScriptedProducer(script)
        monkeypatch.setattr(transactions, "make_transactional_producer", lambda *_a, **_k: producer)
        return TransactionalWriter({}, "id", "t", 30_000, deadline_s), producer

    return made


def test_a_client_knows_a_broker_before_it_looks_for_the_coordinator_of_its_transactions(make: Make) -> None:
    """Once is not enough: a bootstrap server may have answered, and its connection ends with that."""
    writer, producer = make()
    writer.open(5.0)
    assert producer.calls == ["meet", "meet", "init"]


def test_a_cluster_that_does_not_answer_at_first_is_asked_all_the_same(make: Make) -> None:
    writer, producer = make(meet=[TIMED_OUT], init=[TIMED_OUT])
    writer.open(5.0)
    assert producer.calls == ["meet", "init", "init"]


def test_a_commit_without_an_answer_is_asked_for_again_and_lands_once(make: Make) -> None:
    writer, producer = make(commit=[TIMED_OUT, TIMED_OUT])
    writer.write(FIRST, "first")
    assert producer.landed == [b"1"]
    assert producer.calls == ["begin", "produce", "commit", "commit", "commit"]


def test_a_transaction_known_not_to_have_landed_is_aborted_and_written_anew(make: Make) -> None:
    writer, producer = make(commit=[MUST_ABORT], abort=[TIMED_OUT])
    writer.write(FIRST, "first")
    assert producer.landed == [b"1"]
    assert producer.calls == ["begin", "produce", "commit", "abort", "abort", "begin", "produce", "commit"]


def test_after_an_abort_the_records_of_the_next_attempt_are_asked_for(make: Make) -> None:
    writer, producer = make(commit=[MUST_ABORT])
    writer.write(FIRST, "first", lambda: SECOND)
    assert producer.landed == [b"2"]
    writer.write(FIRST, "other", lambda: SECOND)
    assert producer.landed == [b"2", b"1"], "nothing was aborted in between"


def test_after_an_abort_that_was_made_up_for_they_are_asked_for_too(make: Make) -> None:
    writer, producer = make(deadline_s=0.0, produce=[MUST_ABORT], abort=[TIMED_OUT])
    with pytest.raises(ClusterProblem):
        writer.write(FIRST, "first", lambda: SECOND)
    writer.write(FIRST, "first", lambda: SECOND)
    assert producer.landed == [b"2"]


def test_they_are_asked_for_as_long_as_there_was_no_answer(make: Make) -> None:
    writer, producer = make(commit=[MUST_ABORT])

    def looks_in_vain() -> list[OutgoingKafkaRecord]:
        writer.end_open([("t", 0)])
        raise ClusterProblem("no answer")

    with pytest.raises(ClusterProblem):
        writer.write(FIRST, "first", looks_in_vain)
    writer.write(FIRST, "first", lambda: SECOND)
    assert producer.landed == [b"2"]


def test_what_ends_open_records_is_a_tombstone_to_whoever_reads_it(make: Make) -> None:
    writer, producer = make()
    writer.end_open([("t", 0)])
    assert (producer.written, producer.landed, producer.calls[-1]) == ([None], [], "abort")


def test_a_client_that_is_lost_before_it_wrote_names_no_place_of_an_earlier_transaction(make: Make) -> None:
    writer, producer = make()
    writer.write(FIRST, "first")
    assert writer.marks == {("t", 0): 0}
    producer.script["begin"] = [FENCED]
    with pytest.raises(SessionLost):
        writer.write(FIRST, "second")
    assert writer.marks == {}


def test_a_client_without_brokers_is_lost_once_the_cluster_answers_another_one(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may stay without them for ever (librdkafka 2.16), and the outcome of its transaction with it."""
    writer, _producer = make(deadline_s=0.0, commit=[TIMED_OUT], meet=[NO_BROKER])
    monkeypatch.setattr(client, "make_admin", lambda _properties: ScriptedProducer({}))
    with pytest.raises(SessionLost) as caught:
        writer.write(FIRST, "first")
    assert caught.value.unsettled == Unsettled("first", {("t", 0): 0})


@pytest.mark.parametrize(("own", "others"), [([], []), ([NO_BROKER], [NO_BROKER])])
def test_one_that_is_answered_or_whose_cluster_is_silent_is_kept(
    make: Make, monkeypatch: pytest.MonkeyPatch, own: list[KafkaError | None], others: list[KafkaError | None]
) -> None:
    writer, producer = make(deadline_s=0.0, commit=[TIMED_OUT], meet=own)
    monkeypatch.setattr(client, "make_admin", lambda _properties: ScriptedProducer({"meet": others}))
    with pytest.raises(ClusterProblem):
        writer.write(FIRST, "first")
    writer.write(FIRST, "first")
    assert producer.landed == [b"1"]


def test_an_outcome_still_unknown_at_the_deadline_is_settled_before_anything_else_is_written(make: Make) -> None:
    writer, producer = make(deadline_s=0.0, commit=[TIMED_OUT])
    with pytest.raises(ClusterProblem) as caught:
        writer.write(FIRST, "first")
    assert caught.value.retriable
    writer.write(SECOND, "second")
    assert producer.landed == [b"1", b"2"]
    assert producer.calls == ["begin", "produce", "commit", "commit", "begin", "produce", "commit"]


def test_the_same_batch_again_after_an_unknown_outcome_lands_once(make: Make) -> None:
    writer, producer = make(deadline_s=0.0, commit=[TIMED_OUT])
    with pytest.raises(ClusterProblem):
        writer.write(FIRST, "first")
    writer.write(FIRST, "first")
    assert producer.landed == [b"1"]


def test_an_answer_that_says_abort_after_an_unknown_outcome_is_not_believed(make: Make) -> None:
    writer, producer = make(deadline_s=0.0, commit=[TIMED_OUT, MUST_ABORT])
    with pytest.raises(ClusterProblem):
        writer.write(FIRST, "first")
    with pytest.raises(SessionLost) as caught:
        writer.write(FIRST, "first")
    assert caught.value.unsettled is not None
    assert (caught.value.unsettled.token, caught.value.unsettled.marks) == ("first", {("t", 0): 0})
    assert "abort" not in producer.calls


def test_an_invalid_state_after_a_time_out_leaves_the_outcome_to_be_read(make: Make) -> None:
    writer, _producer = make(commit=[TIMED_OUT, INVALID_STATE])
    with pytest.raises(SessionLost) as caught:
        writer.write(FIRST, "first")
    assert caught.value.unsettled is not None


def test_an_abort_that_found_no_time_is_made_up_for(make: Make) -> None:
    writer, producer = make(deadline_s=0.0, produce=[MUST_ABORT], abort=[TIMED_OUT])
    with pytest.raises(ClusterProblem) as caught:
        writer.write(FIRST, "first")
    assert caught.value.retriable
    writer.write(FIRST, "first")
    assert producer.landed == [b"1"]
    assert producer.calls == ["begin", "produce", "abort", "abort", "begin", "produce", "commit"]


@pytest.mark.parametrize("call", ["init", "begin", "produce", "commit"])
def test_a_fatal_error_anywhere_loses_the_client_and_nothing_lands(make: Make, call: str) -> None:
    writer, producer = make(**{call: [FENCED]})
    with pytest.raises(SessionLost) as caught:
        _open_and_write(writer)
    assert (caught.value.unsettled is not None) == (call == "commit")
    writer.close()
    assert producer.landed == []
    assert "abort" not in producer.calls


def test_a_missing_right_is_told_at_once_and_the_transaction_is_aborted(make: Make) -> None:
    writer, producer = make(commit=[REFUSED])
    with pytest.raises(ClusterProblem) as caught:
        writer.write(FIRST, "first")
    assert (caught.value.code, caught.value.retriable) == (Code.NOT_AUTHORISED, False)
    assert producer.calls == ["begin", "produce", "commit", "abort"]


def test_a_record_the_client_refuses_takes_its_batch_with_it_and_is_not_tried_again(make: Make) -> None:
    writer, producer = make(produce=[None, TOO_LARGE])
    with pytest.raises(ClusterProblem) as caught:
        writer.write([*FIRST, *SECOND], "both")
    assert not caught.value.retriable
    assert producer.landed == []
    writer.write(FIRST, "first")
    assert producer.landed == [b"1"]


def test_a_full_queue_is_waited_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, producer = make()
    full, produce = [BufferError(), BufferError()], producer.produce

    def produce_when_there_is_room(*args: Any, **more: Any) -> None:
        if full:
            raise full.pop()
        produce(*args, **more)

    monkeypatch.setattr(producer, "produce", produce_when_there_is_room)
    writer.write(FIRST, "first")
    assert producer.landed == [b"1"]
    assert producer.calls == ["begin", "poll", "poll", "produce", "commit"]


def test_becoming_the_writer_is_tried_until_the_deadline(make: Make) -> None:
    writer, producer = make(init=[TIMED_OUT, TIMED_OUT])
    writer.open(5.0)
    assert producer.calls == ["meet", "meet", "init", "init", "init"]
    writer, _producer = make(init=[TIMED_OUT])
    with pytest.raises(ClusterProblem) as caught:
        writer.open(0.0)
    assert caught.value.retriable


def _open_and_write(writer: TransactionalWriter) -> None:
    writer.open(5.0)
    writer.write(FIRST, "first")

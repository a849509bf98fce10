"""A new leader takes over what earlier releases left on the topics, and goes on with every recovery."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from recoveryd.kernel.commands import idempotency_key
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.events import BecameLeader, CommandReceived, Tick
from recoveryd.kernel.states import State
from recoveryd.ports import Folded, JournalBatch
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd.recovery.params import Params
from recoveryd_jobs.contract import Directive, decode
from tests.builders.core import CODEC, command, noun_state
from tests.builders.deciding import make_decider
from tests.builders.golden import FILES, records
from tests.contract.harness import Harness
from tests.contract.journals import commit, opened

DECIDER = make_decider(Params())


async def _take_over(harness: Harness, file: str) -> Folded:
    for topic in ("status", "control", "directives"):
        harness.write(getattr(harness.names, topic), records(file, topic))
    journal = harness.journal()
    found = await opened(journal)
    await journal.close()
    return found


def _begin(found: Folded, now_ms: int) -> Decision:
    state = DECIDER.restore(found.daemon, found.nouns, found.directive_sequences)
    return DECIDER.decide(state, BecameLeader(found.daemon.epoch + 1, found.daemon.control_topic_id), now_ms)


def _left_at_ms(file: str) -> int:
    return max(record.timestamp_ms for record in records(file, "status"))


def _newest_directives(file: str) -> Mapping[str, Directive | None]:
    left = {(r.key or b"").decode(): r.value for r in records(file, "directives")}
    return {name: None if value is None else decode(Directive, value) for name, value in left.items()}


@pytest.mark.parametrize("file", FILES)
async def test_a_new_leader_stands_where_the_last_one_did(harness: Harness, file: str) -> None:
    found = await _take_over(harness, file)
    first = _begin(found, _left_at_ms(file))
    known = DECIDER.known(first.state)
    assert {name: noun_state(noun) for name, noun in known.items()} == {
        name: noun_state(n) for name, n in found.nouns.items()
    }
    assert first.state.daemon.applied_control_offset == len(records(file, "control")) - 1
    for name, told in _newest_directives(file).items():
        noun = known.get(name)
        if isinstance(noun, Recovery) and told is not None:
            assert noun.directive_sequence >= told.sequence, "lanes would take its word for an older one"
            assert noun.is_terminal or noun.wanted is Wanted(told.wanted)


@pytest.mark.parametrize("file", FILES)
async def test_what_it_writes_is_what_the_next_one_finds(harness: Harness, file: str) -> None:
    found = await _take_over(harness, file)
    first = _begin(found, _left_at_ms(file))
    journal = harness.journal()
    await opened(journal)
    # All of them, also those that have not changed since.
    await commit(
        journal,
        JournalBatch(
            changed=list(DECIDER.known(first.state).values()),
            daemon=first.state.daemon,
            answers=first.answers,
            notices=first.notices,
            directives=first.directives,
        ),
    )
    again = await opened(journal)
    await journal.close()
    assert dict(again.nouns) == dict(DECIDER.known(first.state))
    assert again.daemon == first.state.daemon


@pytest.mark.parametrize("file", FILES)
async def test_a_command_that_an_earlier_release_handled_is_a_duplicate(harness: Harness, file: str) -> None:
    found = await _take_over(harness, file)
    state, now_ms = _begin(found, _left_at_ms(file)).state, _left_at_ms(file)
    for offset, record in enumerate(records(file, "control"), start=len(records(file, "control"))):
        said = CODEC.decode(record.key, record.value, record.headers, record.timestamp_ms, offset)
        previous = found.seen[idempotency_key(said.meta.source, said.meta.id)]  # type: ignore[union-attr]
        decision = DECIDER.decide(state, CommandReceived(offset, now_ms, said, previous), now_ms)  # type: ignore[arg-type]
        assert [answer.kind for answer in decision.answers] == ["duplicate"]


async def test_what_was_running_is_waited_for_and_then_started_again(harness: Harness) -> None:
    found = await _take_over(harness, "release-0.1.0")
    now_ms = _left_at_ms("release-0.1.0")
    state, started = _begin(found, now_ms).state, []
    for second in range(1, 20):
        decision = DECIDER.decide(state, Tick(), now_ms + second * 1_000)
        state = decision.state
        started += [(second, effect) for effect in decision.effects if isinstance(effect, LaunchAttempt)]
    before = found.nouns["follows"]
    assert isinstance(before, Recovery)
    [(second, effect)] = started
    assert second * 1_000 > Params().adopt_wait_ms
    assert (effect.recovery, effect.attempt) == ("follows", before.attempt.number + 1)
    assert (effect.spec, effect.plan) == (before.spec, before.plan)


@pytest.mark.parametrize(
    ("file", "name"), [("release-0.1.0", "paused"), ("format-1", "limited"), ("format-1", "checks")]
)
async def test_what_was_paused_goes_on_when_it_is_told_to(harness: Harness, file: str, name: str) -> None:
    found = await _take_over(harness, file)
    now_ms = _left_at_ms(file)
    said = replace(command("resume", name, offset=found.daemon.applied_control_offset + 1), broker_ms=now_ms)
    decision = DECIDER.decide(_begin(found, now_ms).state, said, now_ms)
    assert [answer.kind for answer in decision.answers] == ["accepted"]
    noun = DECIDER.known(decision.state)[name]
    assert noun_state(noun) in {State.RUNNING, State.STARTING, State.VERIFYING}

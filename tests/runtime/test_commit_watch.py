"""A stall of commits is distinguished from silence."""

from recoveryd.app.feed import STALLED_AFTER_S, CommitWatch


def watch(moments: list[tuple[float, int, float, int | None]], silent: range = range(0)) -> list[bool]:
    made = CommitWatch(60.0)
    return [
        made.is_stalled(acked, acked_s, committed, now_s, is_silent=int(now_s) in silent)
        for now_s, acked, acked_s, committed in moments
    ]


def test_acknowledged_records_that_are_never_committed_are_a_stall() -> None:
    moments = [(float(s), 10 + s, float(s), 10) for s in range(62)]
    assert watch(moments) == [False] * 60 + [True, True]


def test_commits_that_follow_are_none() -> None:
    assert not any(watch([(float(s), s, float(s), s - 5 if s > 5 else None) for s in range(300)]))


def test_silence_after_a_commit_is_none() -> None:
    assert not any(watch([(float(s), 10, 1.0, 11) for s in range(300)]))


def test_a_broker_that_is_away_is_none() -> None:
    """The last record was acknowledged just before the member left: neither positions nor commits move."""
    assert not any(watch([(float(s), 10, 1.0, 9) for s in range(300)]))


def test_a_broker_that_stood_still_gets_the_whole_patience_again() -> None:
    """A record was acknowledged just before commits stopped, the next right after: its commit may be late, but not for
    ever.
    """
    moments = [(float(s), 10 if s < 62 else 11, 1.0 if s < 62 else 62.0, 10) for s in range(62)]
    moments += [(float(s), 11 + s, float(s), 10) for s in range(62, 130)]
    assert watch(moments, silent=range(2, 62)).index(True) == 61 + 60


def test_a_commit_that_was_lost_is_none_where_the_next_record_comes_late() -> None:
    """The member was taken for dead between an acknowledgement and its commit, and for long nothing came after it."""

    def moments(commits_s: float) -> list[tuple[float, int, float, int | None]]:
        return [
            (s, *((9, 1.0) if s < 100 else (12, 100.0)), 9 if s < commits_s else 13) for s in map(float, range(300))
        ]

    assert not any(watch(moments(commits_s=103)))
    assert watch(moments(commits_s=300)).index(True) == 130


def test_a_commit_that_waits_out_its_requests_after_a_rebalance_is_none() -> None:
    """A rebalance forgets what was committed. A command comes long after it, and then the group's broker is silent."""
    made = CommitWatch(STALLED_AFTER_S)
    moments = ((float(s), *((12, 400.0) if s >= 400 else (9, 1.0))) for s in range(535))
    assert not any(made.is_stalled(acked, acked_s, None, now_s) for now_s, acked, acked_s in moments)

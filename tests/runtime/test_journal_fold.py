"""Folding the journal pauses the garbage collector, which runs again afterwards in every case."""

import gc

import pytest

from recoveryd.adapters.kafka.journal_fold import fold_status, kept_for_good
from recoveryd.errors import RecoverydError
from recoveryd.ports import ControlRecord
from tests.builders.core import STATUS


def test_what_is_folded_is_out_of_the_collectors_sight() -> None:
    before = gc.get_freeze_count()
    try:
        with kept_for_good():
            assert not gc.isenabled()
            kept = [[number] for number in range(1_000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(kept)
    finally:
        gc.unfreeze()


def test_the_collector_works_on_after_a_broken_record() -> None:
    try:
        with pytest.raises(RecoverydError), kept_for_good():
            fold_status(STATUS, [ControlRecord(0, 0, 0, b"r1", b"not JSON", ())])
        assert gc.isenabled()
    finally:
        gc.unfreeze()

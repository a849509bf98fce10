"""Garbage is collected in a thread of our own: in one of librdkafka's it would end the process."""

import gc
import signal
import subprocess
import sys
import weakref

import pytest

from recoveryd_jobs.shared.garbage import collect_in_own_thread, uncollected
from tests.e2e.processes import wait_for
from tests.patience import patient_s

# A question that nobody answers is given up by librdkafka's thread, which makes objects. Only garbage holds the client.
_ASK = """
import threading, sys
from confluent_kafka.admin import AdminClient, ConfigResource
from recoveryd_jobs.shared.garbage import collect_in_own_thread

class Holder:
    pass

def ask(done):
    holder = Holder()
    holder.me = holder
    holder.client = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    asked = holder.client.describe_configs([ConfigResource("topic", "t")], request_timeout=1)
    next(iter(asked.values())).add_done_callback(done)

if "own" in sys.argv:
    collect_in_own_thread()
kept, told = [], threading.Event()
def make_objects(_):
    kept.extend([] for _ in range(300_000))
    told.set()
ask(make_objects)
sys.exit(0 if told.wait(60) else 3)
"""


@pytest.mark.parametrize(("whose", "exit_code"), [("own", 0), ("python", -signal.SIGABRT)])
def test_an_answer_to_a_client_that_is_garbage_ends_no_process_that_collects_in_its_own_thread(
    whose: str, exit_code: int
) -> None:
    ended = subprocess.run([sys.executable, "-c", _ASK, whose], capture_output=True, timeout=patient_s(5), check=False)
    assert ended.returncode == exit_code, ended.stderr.decode()


class Held:
    """Held by nothing but itself."""

    def __init__(self) -> None:
        self.me = self


def test_garbage_is_collected_though_python_does_not() -> None:
    collect_in_own_thread()
    assert not gc.isenabled()
    seen = weakref.ref(Held())
    kept = [[number] for number in range(2 * gc.get_threshold()[0])]
    wait_for(lambda: seen() is None, patient_s(5), lambda: f"{len(kept)} objects, {gc.get_count()}")


def test_nothing_is_collected_where_it_would_cost_too_much() -> None:
    collect_in_own_thread()
    with uncollected():
        seen = weakref.ref(Held())
        kept = [[number] for number in range(100 * gc.get_threshold()[0])]
        counts = gc.get_count()
        assert counts[0] > len(kept) // 2
        assert seen() is not None
    wait_for(lambda: seen() is None, patient_s(5), lambda: str(gc.get_count()))

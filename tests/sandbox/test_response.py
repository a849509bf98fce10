"""`make response`: what is folded from what was seen, scenarios that cannot be used, and a tiny whole run on a real
broker.
"""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.simulation.response import read_response
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.gameday.judge import LiveSecond, Second
from recoveryd_sandbox.gameday.stack import GamedayStack
from recoveryd_sandbox.response import steps
from recoveryd_sandbox.response.__main__ import main as response_main
from recoveryd_sandbox.response.folding import Copied, Window, fold, quantile, rate, steady
from recoveryd_sandbox.response.picture import draw
from recoveryd_sandbox.response.scenario import STANDARD, read_response_scenario
from tests.patience import patient_s
from tests.sandbox.refusals import check_refused, told_on_refusal
from tests.simulation.response_example import example_response

SCENARIO = read_response_scenario()
STANDARD_TEXT = STANDARD.read_text(encoding="utf-8")


def seen(count: int, missing: int = 0) -> list[Second]:
    whole = [Second(100.0 + at, 0.010 + at / 1000, 1.0, (0.001, 0.002, 0.010 + at / 1000)) for at in range(count)]
    return [*whole, *(Second(100.0 + count + at, None, None) for at in range(missing))]


def window(seconds: int, copied: list[Copied] | None = None) -> Window:
    return Window(3, 2, 0.4, 100.0, 100.0 + seconds, 6.0, copied or [])


def test_a_step_is_folded_from_its_seconds() -> None:
    copied = [Copied(100.0, 5e6, 10.0), Copied(105.0, 6e6, 20.0), Copied(109.0, 23e6, 100.0)]
    live = [LiveSecond(100.0, 0.004), LiveSecond(101.0, 0.900), LiveSecond(102.0, 0.005)]
    step = fold(window(10, copied), seen(10), live)
    assert (step.order, step.repeat, step.share, step.seconds, step.bytes_per_s) == (3, 2, 0.4, 10, 2_000_000)
    assert (step.canary_p50_ms, step.canary_p90_ms, step.canary_p99_ms) == (2.0, 16.0, 19.0)
    assert (step.live_p99_ms, step.lag_s, step.broker_cores) == (5.0, 1.0, 0.6)
    assert step.second_p99_ms == tuple(float(10 + at) for at in range(10))
    assert step.second_lag_s == (1.0,) * 10


def test_without_a_replay_nothing_was_copied() -> None:
    assert fold(window(10), seen(10), [LiveSecond(100.0, 0.004)]).bytes_per_s == 0


@pytest.mark.parametrize(("whole", "missing", "live"), [(4, 6, 1), (0, 0, 1), (10, 0, 0)])
def test_a_step_that_was_hardly_seen_is_no_measurement(whole: int, missing: int, live: int) -> None:
    with pytest.raises(SandboxError, match="was seen in") as refusal:
        fold(window(10), seen(whole, missing), [LiveSecond(100.0, 0.004)] * live)
    assert refusal.value.hint


def test_a_second_that_nobody_answered_is_left_out_and_not_taken_for_quick() -> None:
    assert len(fold(window(20), seen(18, 2), [LiveSecond(100.0, 0.004)]).second_p99_ms) == 18


def test_the_unlimited_rate_leaves_out_start_and_end() -> None:
    looks = [Copied(float(at), amount, amount / 100) for at, amount in enumerate([0, 0, 5, 15, 25, 35, 35, 35])]
    found = steady(looks)
    assert [look.at_s for look in found] == [2.0, 3.0, 4.0, 5.0]
    assert rate(found, lambda look: look.bytes) == 10.0
    assert rate(found[:1], lambda look: look.bytes) == 0.0


def test_quantiles_are_nearest_ranks() -> None:
    assert [quantile([1.0, 2.0, 3.0, 4.0], share) for share in (0.01, 0.5, 0.75, 0.99)] == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(SandboxError):
        quantile([], 0.5)


def test_the_order_is_random_by_its_seed_and_has_each_share_as_often_as_wanted() -> None:
    one, again, other = (read_response_scenario(None, {"seed": seed}).order() for seed in (1, 1, 2))
    assert one == again != other
    assert sorted(one) == sorted(other) == [(n, s) for n in (1, 2) for s in (0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)]


def test_the_standard_scenario_holds_each_rate_for_a_minute_with_a_backlog_for_it() -> None:
    scenario = read_response_scenario()
    assert (scenario.seconds, scenario.repeats) == (60, 2)
    assert scenario.records_needed(100_000.0) > 60 * 100_000


@pytest.mark.parametrize(
    ("text", "code", "said", "hint"),
    [
        ("shares: [", Code.CONFIG_UNREADABLE, "not YAML", "Check the path"),
        (STANDARD_TEXT + "secs: 5", Code.CONFIG_UNKNOWN_KEY, "There is no key secs.", "Did you mean"),
        (STANDARD_TEXT.replace("0.05", "1.5"), Code.CONFIG_INVALID, "shares.1", "standard.yaml"),
        (STANDARD_TEXT.replace("[0, 0.05", "[0.05"), Code.CONFIG_INVALID, "must have 0 and 1", "standard.yaml"),
        (
            STANDARD_TEXT.replace("seconds: 60", "seconds: 0"),
            Code.CONFIG_INVALID,
            "seconds: should be",
            "standard.yaml",
        ),
        (STANDARD_TEXT.replace("25ms", "[]"), Code.CONFIG_INVALID, "slo.p99", "standard.yaml"),
    ],
)
def test_a_scenario_with_nonsense_is_refused_with_code_sentence_and_next_step(
    tmp_path: Path, text: str, code: Code, said: str, hint: str
) -> None:
    check_refused(read_response_scenario, tmp_path / "mine.yaml", text, code, said, hint)


def test_a_flag_with_nonsense_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = told_on_refusal(response_main, ["--seconds", "0"], capsys, monkeypatch)
    assert told.startswith("RCV-4003 --seconds: seconds: should be greater than or equal to 2")


class DoubledTopics:
    """Stands for the topics of the broker, with so many records."""

    records = 1_000

    def __init__(self, _bootstrap: str) -> None:
        pass

    def end_offsets(self, _topic: str) -> list[int]:
        return [self.records]


@pytest.mark.parametrize(
    ("method", "args", "what"),
    [("unlimited", (), "the unlimited replay was"), ("step", (7, 1, 0.4), "step 7 (40%) was")],
)
def test_a_backlog_is_only_doubled_for_another_try(
    monkeypatch: pytest.MonkeyPatch, method: str, args: tuple[Any, ...], what: str
) -> None:
    tries, told = list[str](), list[str]()

    def over_too_soon(name: str, *_more: object) -> list[Copied]:
        tries.append(name)
        if method == "step":
            raise steps._OverTooSoon
        return []

    def fill(_self: steps.Steps, records: int) -> None:
        DoubledTopics.records = records

    monkeypatch.setattr(DoubledTopics, "records", 1_000)
    monkeypatch.setattr(steps, "Topics", DoubledTopics)
    made = steps.Steps(
        cast(GamedayStack, SimpleNamespace(broker=SimpleNamespace(bootstrap="b:1"))), SCENARIO, told.append
    )
    for name, stand_in in (("_steady", over_too_soon), ("_measured", over_too_soon), ("_delete", lambda _name: None)):
        monkeypatch.setattr(made, name, stand_in)
    monkeypatch.setattr(steps.Steps, "fill", fill)

    with pytest.raises(SandboxError) as refused:
        getattr(made, method)(*args)

    assert len(tries) == 5
    assert [line.rpartition("filled to ")[2] for line in told] == [f"{n},000 records" for n in (2, 4, 8, 16)]
    assert refused.value.message == f"{what} over too soon 5 times"
    assert refused.value.hint.startswith("Give it more backlog_records than 16,000")


def test_a_response_is_drawn(tmp_path: Path) -> None:
    draw(tmp_path / "response.png", example_response())
    assert (tmp_path / "response.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.wide(
    "tests/e2e/test_live_protection.py::test_a_replay_takes_what_live_traffic_can_spare_yields_at_its_slo_and_waits_at_the_floor_in_the_dark"
)
@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.e2e
def test_a_tiny_run_measures_a_real_broker(tmp_path: Path) -> None:
    scenario = tmp_path / "tiny.yaml"
    scenario.write_text(
        "{name: tiny, live_records_per_s: 200, backlog_records: 200000, slo: {p99: 1s, lag: 30s},"
        " shares: [0, 0.2, 1], seconds: 3, repeats: 1, seed: 7, warm_up: 500ms, rest: 500ms,"
        " seen_least: 0.2}",
        encoding="utf-8",
    )
    data, picture = tmp_path / "response.json", tmp_path / "response.png"
    command = [sys.executable, "-m", "recoveryd_sandbox.response", "--scenario", str(scenario)]
    done = subprocess.run(
        [*command, "--data", str(data), "--picture", str(picture), "--note", "tiny"],
        capture_output=True, text=True, timeout=patient_s(300), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = read_response(data)
    assert (found.note, found.seed, found.slo_p99_ms, found.shares) == ("tiny", 7, 1_000.0, (0.0, 0.2, 1.0))
    assert [step.order for step in found.steps] == [1, 2, 3]
    assert found.unlimited_bytes_per_s > 0
    assert found.at(0.0)[0].bytes_per_s == 0
    assert all(step.canary_p99_ms > 0 and step.broker_cores > 0 for step in found.steps)
    assert "/" not in json.dumps(json.loads(data.read_text())["versions"]), "no path of this machine"
    assert picture.exists()

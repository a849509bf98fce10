"""`control` of units: what each kind may have, secrets from files that are never shown, and what is wrong by
its line.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd.adapters.control.controls import UnitControls
from recoveryd.adapters.control.make import Surroundings, make_controls
from recoveryd.errors import ConfigProblem
from recoveryd.settings import Settings
from recoveryd.settings.unit_control import ControlOptions
from recoveryd.units.control import ApplicationState, Desired, Needs, Wish
from tests.settings.test_unit_settings import loaded, problem

HEAD = "units:\n  w:\n    kind: group\n    group: w\n    inputs: [words]\n    control:\n"


def made(settings: Settings, folder: Path) -> UnitControls:
    around = Surroundings(folder, "test", "test", settings.webhook_targets(), settings.environment, lambda: 0)
    return make_controls(settings.control_options(), around)


def options(settings: Settings) -> ControlOptions:
    return settings.control_options()["w"]


def test_variables_come_from_the_config_from_files_and_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token.txt").write_text("from-a-file\n")
    text = (
        HEAD + "      kind: process\n      start: [run, --token, argument]\n      work_dir: app\n"
        "      environment: {A: in-the-config, B: {file: token.txt}, C: {env: HOME}, "
        "D: 'x=${file:token.txt};${env:HOME}'}\n"
    )
    settings = replace(loaded(tmp_path, text), environment={"HOME": "from-a-variable"})
    found = options(settings)
    assert found.variables() == {
        "A": "in-the-config",
        "B": "from-a-file",
        "C": "from-a-variable",
        "D": "x=from-a-file;from-a-variable",
    }
    assert found.path("work_dir") == tmp_path / "app"
    shown = {line.key: line.value for line in settings.show()}
    assert not {"in-the-config", "from-a-file"} & set(map(str, shown.values())), shown
    assert "in-the-config" not in repr(settings)


@pytest.mark.parametrize(
    ("lines", "line", "says"),
    [
        ("kind: process\n      start: []", 9, "start"),
        ("kind: process\n      start: run it", 9, "start"),
        ("kind: process\n      start: [run]\n      environment: {RECOVERYD_X: a}", 10, "an option of recoveryd"),
        ("kind: process\n      start: [run]\n      environment: {'A=B': a}", 10, "no name of a variable"),
        ("kind: process\n      start: [run]\n      enviroment: {A: a}", 10, "enviroment"),
        (
            "kind: process\n      start: [run]\n      environment: {A: {file: a, env: b}}",
            10,
            "{file: PATH} or {env: NAME}",
        ),
        ("kind: process\n      start: [run]\n      url: http://x", 7, "url has no meaning where kind is process"),
        ("kind: kubernetes\n      workload: pod/x", 9, "workload"),
        ("kind: kubernetes\n      workload: deployment/x\n      context: c", 7, "context is of a kubeconfig"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, lines: str, line: int, says: str) -> None:
    found = problem(tmp_path, f"{HEAD}      {lines}\n")
    assert says in str(found)
    assert found.line == line


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("{file: lost.txt}", "is not usable"),
        ("{env: NOT_SET_ANYWHERE}", "is not usable"),
    ],
)
def test_a_secret_that_is_not_there_is_named_with_its_line(tmp_path: Path, value: str, says: str) -> None:
    lines = f"      kind: process\n      start: [run]\n      environment:\n        A: {value}\n"
    with pytest.raises(ConfigProblem) as caught:
        options(loaded(tmp_path, HEAD + lines)).variables()
    assert says in str(caught.value)
    assert (caught.value.key, caught.value.line) == ("units.w.control.environment.A", 11)


async def test_one_that_a_person_controls_waits_for_an_ack(tmp_path: Path) -> None:
    settings = loaded(tmp_path, f"{HEAD}      kind: manual\n")
    controls = made(settings, tmp_path)
    try:
        report = await controls.ask(Wish("w", Desired.STOPPED, "w1", "k", 0))
        assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.ACK)
        assert report.why == "a person stops it and says so with ack"
        report = await controls.ask(Wish("lost", Desired.STOPPED, "w1", "k", 0))
        assert (report.needs, report.why) == (Needs.MENDING, "the config has no unit 'lost'")
        assert (await controls.look("w")).state is ApplicationState.UNKNOWN
    finally:
        await controls.close()


async def test_a_defect_of_an_adapter_is_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(tmp_path, f"{HEAD}      kind: process\n      start: [run]\n")
    controls = made(settings, tmp_path)

    async def broken(*_: object) -> None:
        raise ZeroDivisionError("with a secret")

    monkeypatch.setattr(controls._units["w"], "ask", broken)
    try:
        report = await controls.ask(Wish("w", Desired.STOPPED, "w1", "k", 0))
    finally:
        await controls.close()
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert "ZeroDivisionError" in report.why
    assert "secret" not in report.why


@pytest.mark.parametrize(
    ("lines", "line", "says"),
    [
        ("kind: kubernetes\n      workload: deployment/x\n      kubeconfig: lost", 10, "lost cannot be used"),
        ("kind: kubernetes\n      workload: deployment/x", 8, "this is not a pod of Kubernetes"),
        (
            "kind: webhook\n      webhook: w\n      status_url: http://x/\n      ca_file: lost.pem",
            11,
            "lost.pem holds no certificates that can be used: No such file",
        ),
    ],
)
def test_what_the_daemon_could_not_use_ends_its_start(tmp_path: Path, lines: str, line: int, says: str) -> None:
    webhooks = "webhooks: {w: {url: 'http://x/', secret: 0123456789abcdef}}\n"
    settings = loaded(tmp_path, f"{HEAD}      {lines}\n{webhooks}")
    with pytest.raises(ConfigProblem) as caught:
        made(settings, tmp_path)
    assert says in str(caught.value)
    assert caught.value.line == line

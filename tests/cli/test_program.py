"""The program as a whole: help, version, completion, errors, the cost of its start."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

import recoveryd
from recoveryd.cli.app import app
from recoveryd.cli.verbs.explain_cases import CASES
from recoveryd.cli.verbs.explain_words import EXAMPLES, FAMILIES, TABLES
from recoveryd.errors import RecoverydError
from recoveryd.forecast.outlook import Outlook
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.law.types import ControlVerdict, Rule
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.pausing import PauseReason
from recoveryd.units.compatibility import VersionVerdict
from recoveryd.workflows.kinds.runbook.truths import TruthVerdict
from recoveryd_sandbox.errors import BrokerFailed
from tests.builders import core
from tests.builders.world import World
from tests.cli.recoveries import in_state
from tests.cli.scripted import ScriptedBackend, run

VERBS = {
    "replay", "watch-group", "list", "get", "describe", "watch", "wait", "pause", "resume", "stop", "throttle", "approve", "reject",
    "lag", "forecast", "simulate", "topics", "config", "explain", "diagnose", "doctor", "sandbox", "completion",
}  # fmt: skip
SLOW_TO_LOAD = {
    "aiohttp", "aiokafka", "confluent_kafka", "faust", "matplotlib", "numpy", "pandas", "prometheus_client", "pyarrow", "pydantic", "pyspark", "structlog", "yaml",
}  # fmt: skip
PROGRAM = [sys.executable, "-c", "from recoveryd.cli import main; main()"]


def start(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *args], capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **env}
    )


def test_help_names_every_verb_and_every_exit_code() -> None:
    result = run(None, "--help")

    words = set(result.stdout.replace("│", " ").split())
    assert result.exit_code == 0
    assert words >= VERBS
    assert all(str(code) in words for code in range(10))


@pytest.mark.parametrize("args", [("--help",), ("replay", "--help"), ("sandbox", "up", "--help")])
def test_what_needs_no_broker_loads_nothing_that_is_slow_to_load(args: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom recoveryd.cli import main\n"
        f"try: main({list(args)})\nexcept SystemExit: pass\n"
        "print(*{m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names, file=sys.stderr)\n"
        "print(*{m for m in sys.modules if m.startswith('recoveryd.')}, file=sys.stderr)"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    foreign, own = (set(line.split()) for line in result.stderr.splitlines())
    own_doing = SLOW_TO_LOAD - (
        {"pydantic"} if args[0] == "sandbox" else set()
    )  # Typer parses a group's arguments with it
    assert foreign & own_doing == set()
    assert "recoveryd.cli.app" in own
    assert own & {"recoveryd.wire.codec", "recoveryd.recovery.model", "recoveryd.bootstrap"} == set()
    assert "asyncio" not in result.stderr


def test_version_is_that_of_the_package() -> None:
    result = run(None, "--version")

    assert (result.exit_code, result.stdout) == (0, f"recoveryctl {version('recoveryd')}\n")


def test_without_a_verb_it_shows_help_and_is_a_usage_error() -> None:
    result = run(None)

    assert result.exit_code == 2
    assert "RCV-" not in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("fly",), "No such command 'fly'"),
        (("get",), "Missing argument 'ID'"),
        (("get", "a", "b"), "Got unexpected extra argument(s) (b).\n  next: See `"),
        (("replay", "a", "b"), "--help`; values are given by flags, as `--source`, `--from`, `--to`."),
        (("list", "-o", "xml"), "-o"),
        (("topics",), ""),
    ],
)
def test_a_usage_error_has_code_sentence_and_next_step(args: tuple[str, ...], said: str) -> None:
    result = run(None, *args)

    assert result.exit_code == 2
    assert said in result.stderr
    if said:
        first, second = result.stderr.splitlines()
        assert first.startswith("RCV-4008 ")
        assert second.startswith("  next: See `recoveryctl")


def test_without_an_address_it_says_how_to_give_one() -> None:
    result = run(None, "list")

    assert result.exit_code == 2
    assert result.stderr.startswith("RCV-4004 No broker address is known.\n  next: Give `--bootstrap HOST:PORT`")


@pytest.mark.parametrize(
    ("error", "exit_code", "said"),
    [
        (RecoverydError(Code.CLUSTER_UNREACHABLE, "No broker answers."), 1, "RCV-2011 No broker answers."),
        (RecoverydError(Code.NOT_AUTHORISED, "Not allowed to read."), 5, "RCV-2012 Not allowed to read."),
        (BrokerFailed("It ended.", "Look."), 1, "RCV-4012 It ended.\n  next: Look."),
        (ZeroDivisionError("by zero"), 1, "RCV-4011 ZeroDivisionError: by zero"),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_any_error_is_a_code_and_a_sentence_and_a_traceback_only_with_debug(
    error: Exception, exit_code: int, said: str, debug: bool
) -> None:
    class Broken(ScriptedBackend):
        def statuses(self) -> dict[str, dict[str, object]]:
            raise error

    result = run(Broken(), "list", *(["--debug"] if debug else []))

    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert said in result.stderr
    assert ("Traceback" in result.stderr) is debug


def test_every_verb_can_show_a_traceback() -> None:
    def verbs(group: Any) -> Iterator[Any]:
        for command in group.commands.values():
            yield from verbs(command) if hasattr(command, "commands") else (command,)

    root: Any = typer.main.get_command(app)
    without = [verb.name for verb in verbs(root) if not any("--debug" in option.opts for option in verb.params)]
    assert without == []
    assert run(None, "explain", "RCV-4011", "--debug").exit_code == 0


def test_explain_works_offline_for_every_code() -> None:
    for code in Code:
        result = run(None, "explain", code.value)

        start = f"{code.value} {code.sentence}\n  next: {code.next_step}\n  cause: "
        assert (result.exit_code, result.stdout[: len(start)]) == (0, start)
        assert "\n  try: recoveryctl " in result.stdout


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("state", State),
        ("stop reason", StopReason),
        ("verdict of a group", LagVerdict),
        ("verdict of the controller", ControlVerdict),
        ("forecast", Outlook),
        ("rule of the controller", [rule.name.lower() for rule in Rule]),
        ("reason of a pause", get_args(PauseReason)),
        ("verdict of an upgrade", VersionVerdict),
        ("verdict of the truths", [verdict.lower() for verdict in TruthVerdict]),
    ],
)
def test_explain_knows_every_word_that_a_daemon_says_and_no_other(kind: str, words: Iterable[str]) -> None:
    assert set(TABLES[kind]) == set(words)


def test_each_enum_of_states_reasons_and_verdicts_is_told_by_explain_or_known_to_be_told_elsewhere() -> None:
    """A new one has to choose. By name, so that none is missed that this file does not import."""
    elsewhere = {
        "ApplicationState": "unit control, in words",
        "CheckVerdict": "doctor, beside each check",
        "DeliveryState": "watches, as pending, delivered or failed",
        "GateState": "runbook show, with a sentence beside each gate",
        "PastState": "savepoints, with a sentence",
        "RejectReason": "label of the counter of samples that are not used",
        "StepState": "describe, beside each step",
        "UndoState": "describe, beside each change",
        "UnitStopState": "watches, as pending, stopped or failed",
    }
    told = {State, StopReason, LagVerdict, ControlVerdict, Outlook, Rule, VersionVerdict, TruthVerdict}
    text = "\n".join(path.read_text() for path in Path(recoveryd.__file__).parent.rglob("*.py"))
    names = r"^class (\w*(?:State|Reason|Verdict|Outlook|Rule))\((?:Str|Int)?Enum\):|^(\w+Reason) = Literal\["
    found = {enum or literal for enum, literal in re.findall(names, text, flags=re.MULTILINE)}
    assert found == {each.__name__ for each in told} | {"PauseReason"} | set(elsewhere)
    assert all(issubclass(each, Enum) for each in told)


def test_every_word_has_a_cause_an_example_and_a_next_command() -> None:
    assert {kind: list(rows) for kind, rows in CASES.items()} == {kind: list(rows) for kind, rows in TABLES.items()}
    for kind, rows in TABLES.items():
        for word in rows:
            (told,) = [part for part in run(None, "explain", word).stdout.split("\n\n") if f"{word} ({kind}): " in part]
            assert "\n  cause: " in told
            assert "\n  example: " in told
            assert "\n  try: recoveryctl " in told


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize("form", ["{}", "rule-{}", "Rule {}"])
def test_a_rule_is_found_by_the_number_that_its_event_has(rule: Rule, form: str) -> None:
    told = run(None, "explain", form.format(rule.value)).stdout
    assert told.startswith(f"{rule.name.lower()} (rule of the controller): {rule.value}: ")


@pytest.mark.parametrize("reason", get_args(PauseReason))
def test_explain_knows_why_the_daemon_pauses_a_recovery_by_itself(reason: str) -> None:
    assert f"{reason} (reason of a pause): " in run(None, "explain", reason.upper()).stdout


def test_a_verb_that_there_is_not_is_told_in_one_sentence() -> None:
    assert run(None, "resett", "ID").stderr.startswith(
        "RCV-4008 No such command 'resett'. Did you mean 'reset', 'resume'"
    )


def test_the_examples_of_codes_are_of_codes_that_there_are() -> None:
    assert set(EXAMPLES) <= {code.name for code in Code}


def test_what_a_user_can_cause_has_an_example() -> None:
    """Those of commands and of clusters, but for bounds of the program itself and what the message alone can tell."""
    without = {code.name for code in Code if code.value[4] in "12" and code.name not in EXAMPLES}
    assert without == {
        "TOO_MANY_PARTITIONS", "TOO_MANY_WATCHES", "TOO_MANY_HOLDS", "TOO_MANY_CHANGES", "NOT_READY", "TOPIC_CHANGED",
        "VERSIONS_INCOMPATIBLE", "INPUT_NOT_CONFIRMED", "QUOTA_CHANGED", "FEATURE_MISSING",
    }  # fmt: skip


def test_a_cause_is_that_of_the_narrowest_family() -> None:
    causes = {code: run(None, "explain", code).stdout.splitlines()[2] for code in ("1001", "1012", "2001", "2012")}
    assert len(set(causes.values())) == len(causes)
    assert causes["2012"] == f"  cause: {FAMILIES['2012'][0]}"


def test_every_verb_and_option_that_explain_names_is_there() -> None:
    root: Any = typer.main.get_command(app)
    meanings = [told for table in TABLES.values() for told in table.values()]
    texts = [*(line for _, lines in FAMILIES.values() for line in lines), *sum(meanings, ())]
    texts += [code.next_step for code in Code]
    in_full = [line for text in texts for line in re.findall(r"recoveryctl ([a-z][^`;]*)", text)]
    cases = [text for rows in CASES.values() for case in rows.values() for text in case]
    named = in_full + [
        line for text in (*EXAMPLES.values(), *cases) for line in re.findall(r"recoveryctl ([a-z][^`;]*)", text)
    ]
    for line in named:
        words, verb = line.split(), root
        while words and (verbs := getattr(verb, "commands", None)):
            assert words[0] in verbs, line
            verb = verbs[words.pop(0)]
        options = {name for option in verb.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options, line
        needs_reason = any(option.name == "reason" and "required" in (option.help or "") for option in verb.params)
        assert line not in in_full or not needs_reason or "--reason" in words, line
    assert len(named) > len(TABLES)


def test_what_failed_of_its_surroundings_is_gone_on_with_by_a_retry() -> None:
    """The id of what failed is taken, and its target is not empty, so that its command cannot be sent again."""
    for code in ("3003", "3004", "3005", "3006", "3011", "3040", "3043"):
        told = run(None, "explain", code).stdout
        assert "`recoveryctl retry ID`." in told.splitlines()[1], code
        assert "  try: recoveryctl retry ID" in told.splitlines(), code


def test_what_is_paused_for_live_traffic_is_resumed_and_not_tried_again() -> None:
    told = run(None, "explain", "live_slo").stdout
    assert "  try: recoveryctl resume ID --reason TEXT\n" in told
    assert "retry" not in told


def test_no_verdict_asks_for_a_reset_before_anybody_has_looked() -> None:
    """`invalid` is also a topic made anew, and a jump ahead: all would be read again."""
    for table in ("verdict of a group", "verdict of the controller"):
        commands = [command for _, *commands in TABLES[table].values() for command in commands]
        assert [command for command in commands if "recoveryctl reset" in command] == []
    sentence, first, *_ = TABLES["verdict of a group"]["invalid"]
    assert first == "recoveryctl lag GROUP"
    assert all(word in sentence for word in ("past the end", "jumped", "made anew", "cut back"))


def test_the_rule_of_what_no_pressure_moves_does_not_say_that_nothing_limits_and_no_more() -> None:
    """A replay that is at its floor under pressure has it too."""
    told = run(None, "explain", "protect").stdout
    assert all(word in told for word in ("floor", "holds", "wants to copy", "nothing limits"))


def test_a_group_that_is_stopped_may_have_members_that_hang() -> None:
    assert "hang" in run(None, "explain", "stopped").stdout.split("\n\n")[-1]


def test_a_verification_with_differences_is_completed_too_and_so_is_a_copy_without_proof() -> None:
    told = run(None, "explain", "completed").stdout
    assert all(word in told for word in ("RCV-3007", "`--verify none`", "9 where a `verify` found differences"))
    assert "was verified" not in told


@pytest.mark.parametrize("state", ["completed", "failed", "stopped"])
def test_what_can_be_rolled_back_is_not_told_to_be_final_and_no_more(state: str) -> None:
    told = run(None, "explain", state).stdout.split("\n\n")[0]
    assert "Final, but for `rollback` of a workflow." in told
    assert "\n  try: recoveryctl rollback ID --reason TEXT" in told


def test_the_first_status_record_is_that_of_planning() -> None:
    assert "no status record says so" in run(None, "explain", "requested").stdout
    world = World()
    decision = world.feed(core.command("replay", "r"))
    assert [noun.state for noun in decision.changed if isinstance(noun, Recovery)] == [State.PLANNING]
    assert [told.data["from"] for told in decision.notices if told.type == "recovery_planning"] == ["requested"]


def test_who_may_have_to_approve_is_told_by_the_keys_that_there_are() -> None:
    told = run(None, "explain", "awaiting_approval").stdout
    assert all(f"`{key}`" in told for key in ("approvers", "approvals:"))
    assert "whose `approvals:`" not in told


def test_too_many_errors_are_told_with_all_their_bounds_and_both_codes() -> None:
    told = run(None, "explain", "error_rate").stdout
    bounds = ("attempts.max_failures:", "attempts.max_failures_per_hour", "max_failed_chunks_per_hour")
    assert all(bound in told for bound in bounds)
    assert all(f"\n  try: recoveryctl explain {code}" in told for code in ("RCV-3006", "RCV-3043"))


def test_a_reason_of_pauses_is_not_told_to_end_anything() -> None:
    assert "never in `stop.reason`" in run(None, "explain", "live_slo").stdout


@pytest.mark.parametrize(("code", "told"), [("3045", "log start"), ("4016", "/metrics"), ("4017", "standby")])
def test_what_has_another_cause_than_its_family_has_one_of_its_own(code: str, told: str) -> None:
    assert code in FAMILIES
    assert told in run(None, "explain", code).stdout.splitlines()[2]


def test_no_command_is_advised_twice_or_without_what_it_needs() -> None:
    told = run(None, "explain", "RCV-1001").stdout
    assert "recoveryctl replay --print-record" not in told
    assert told.count("recoveryctl replay ... --print-record\n") == 1


@pytest.mark.parametrize("number", ["0", "10", "rule-10", "Rule 0"])
def test_a_number_of_no_rule_says_which_there_are(number: str) -> None:
    result = run(None, "explain", number)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "\n  next: Rules are 1 to 9, and a code has four digits." in result.stderr


@pytest.mark.parametrize(
    "args", [("explain", "{}"), ("{}",), ("context", "use", "{}"), ("list", "-o", "{}"), ("logs", "--{}")]
)
@pytest.mark.parametrize("text", ["a" * 100_000, "RCV-" * 25_000])
def test_a_file_taken_for_a_word_is_not_shown_whole(args: tuple[str, ...], text: str) -> None:
    result = run(None, *(arg.format(text) for arg in args))
    assert result.exit_code in {2, 3}
    assert text[:50] in result.stderr
    assert len(result.stderr) < 1_000


def test_nor_is_one_of_many_words() -> None:
    assert len(run(None, "explain", "hello world " * 10_000).stderr) < 1_000


@pytest.mark.parametrize("written", ["slow_start", "SLOW_START", "slow-start", "Slow Start"])
def test_explain_takes_a_word_in_any_case(written: str) -> None:
    assert run(None, "explain", written).stdout.startswith("slow_start (rule of the controller): 4:")


def test_explain_tells_all_that_a_word_means() -> None:
    told = run(None, "explain", "data_lost").stdout

    assert [line.split(" ")[0] for line in told.splitlines() if line and not line.startswith(" ")] == [
        "RCV-3001", "data_lost", "data_lost",
    ]  # fmt: skip


@pytest.mark.parametrize("written", ["rcv-1012", "1012", "stale_plan"])
def test_explain_takes_a_code_as_people_write_it(written: str) -> None:
    assert run(None, "explain", written).stdout.startswith("RCV-1012 ")


def test_explain_names_the_nearest_code() -> None:
    result = run(None, "explain", "RCV-1112")

    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "RCV-1010 There is no code `RCV-1112`.\n  next: Did you mean RCV-1012?\n"


@pytest.mark.parametrize("word", ["nonsense", "foo", "hello world", "topic"])
def test_a_word_that_is_like_nothing_gets_no_guess(word: str) -> None:
    result = run(None, "explain", word)
    assert result.exit_code == 3
    assert "Did you mean" not in result.stderr
    assert "`recoveryctl explain` lists all of them." in result.stderr


def test_a_word_with_a_slip_gets_what_was_meant() -> None:
    assert "Did you mean STALE_PLAN?" in run(None, "explain", "stale_plann").stderr


@pytest.mark.parametrize("word", ["RCV-1012", "slow_start", "data_lost"])
def test_for_programs_what_a_word_means_is_always_a_list(word: str) -> None:
    found = json.loads(run(None, "explain", word, "-o", "json").stdout)

    assert all(each.get("code", each.get("word")) in {word, "RCV-3001"} for each in found)
    assert len(found) == len(run(None, "explain", word, "-o", "name").stdout.split()) > 0


def test_explain_without_a_code_lists_all_codes_and_all_words_by_kind() -> None:
    words = {word for rows in TABLES.values() for word in rows}
    names = run(None, "explain", "-o", "name").stdout.split()
    rows = json.loads(run(None, "explain", "-o", "json").stdout)
    table = run(None, "explain").stdout

    assert names[: len(Code)] == [code.value for code in Code]
    assert sorted(names[len(Code) :]) == sorted(words)
    assert [row["code"] for row in rows if "code" in row] == [code.value for code in Code]
    assert [(row["kind"], row["word"]) for row in rows if "word" in row] == [
        (kind, word) for kind, rows in TABLES.items() for word in rows
    ]
    assert all(f"\n{kind} " in table for kind in TABLES)


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef recoveryctl"), ("fish", "complete --command")]
)
def test_completion_prints_the_script_of_a_shell(shell: str, mark: str) -> None:
    result = run(None, "completion", shell)

    assert result.exit_code == 0
    assert mark in result.stdout
    assert "_RECOVERYCTL_COMPLETE" in result.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (
            "recoveryctl re",
            {"replay", "resume", "reject", "release", "reset", "reprocess", "restore-savepoint", "retention", "retry"},
        ),
        ("recoveryctl replay --verify c", {"count"}),
        ("recoveryctl sandbox l", {"live"}),
    ],
)
def test_the_completion_script_gets_its_words_from_the_program(typed: str, offered: set[str]) -> None:
    words = len(typed.split(" ")) - 1

    result = start(_RECOVERYCTL_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(words))

    assert set(result.stdout.split()) == offered


def test_completion_offers_ids_with_what_was_typed_so_far() -> None:
    backend = ScriptedBackend({name: in_state(State.RUNNING) for name in ("flights-1", "flights-2", "trains")})
    env = {"_RECOVERYCTL_COMPLETE": "complete_bash", "COMP_WORDS": "recoveryctl get fl", "COMP_CWORD": "2"}

    assert run(backend, env=env).stdout.split() == ["flights-1", "flights-2"]
    assert run(None, env=env).stdout.split() == []


REPLAY = "replay --source a --from earliest --to latest --target b --reason r"


@pytest.mark.parametrize(
    ("line", "exit_code", "printed", "told"),
    [
        ("explain RCV-1012 <&-", 0, "RCV-1012 ", ""),
        ("explain RCV-1012 >&-", 0, "", ""),
        ("explain RCV-1012 2>&-", 0, "RCV-1012 ", ""),
        ("explain <&- 2>&-", 0, "CODE", ""),
        ("get >&-", 2, "", "RCV-4008 "),
        ("get 2>&-", 2, "", ""),  # what is told there is not taken for data
        (f"{REPLAY} <&-", 2, "", "RCV-4008 There is no terminal to ask on."),
        (f"{REPLAY} <&- >&- 2>&-", 2, "", ""),
    ],
)
def test_a_stream_that_is_closed_is_no_terminal_and_breaks_nothing(
    line: str, exit_code: int, printed: str, told: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERYD_")}
    program = f"{sys.executable} -c 'from recoveryd.cli import main; main()'"
    process = subprocess.run(
        ["bash", "-c", f"{program} {line}"], capture_output=True, text=True, timeout=120, check=False, env=environment
    )

    assert process.returncode == exit_code, process.stderr
    assert process.stdout.startswith(printed) if printed else process.stdout == ""
    assert process.stderr.startswith(told) if told else process.stderr == ""


def test_output_into_a_closed_pipe_ends_without_a_traceback() -> None:
    process = subprocess.run(
        ["bash", "-c", (
            f"{sys.executable} -c 'from recoveryd.cli import main; main()' explain | head -1; exit "
            f"${{PIPESTATUS[1]}}"
        )],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert "Traceback" not in process.stderr
    assert "Error" not in process.stderr

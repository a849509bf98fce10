"""docs/cli.md, made from the program: every verb, option and exit code."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from recoveryd.cli.app import app
from recoveryd.cli.failure import ExitCode
from recoveryd.cli.options import PROGRAM
from recoveryd.cli.render.manner_options import PANEL
from tools.markdown import table

FILE: Final = Path("docs/cli.md")

_EXIT_MEANINGS: Final = {
    ExitCode.DONE: (
        "Done, or accepted by the daemon (also when it knew the command already). A recovery that was stopped on "
        "purpose, or by a limit of its command, counts as done, with or without its proof; of a verification only a match does."
    ),
    ExitCode.FAILED: (
        "The recovery failed or was stopped since retention was faster (RCV-3045), a verification ended without a verdict (also where it was stopped), something could not be reached, or a check found what it looks for (`diagnose`, `doctor`, `forecast`, "
        "`retention show`, `savepoint reach`, `simulate`, `topics apply`, `unit contract`, `unit control`, `unit lint`). "
        "Also a no at a question."
    ),
    ExitCode.USAGE: "The command line or the config is wrong, or the config has no such cluster; nothing was sent.",
    ExitCode.NOT_FOUND: "Nothing has this id or name.",
    ExitCode.REJECTED: "The daemon refused the command, or the recovery ended as `rejected` or `expired`.",
    ExitCode.NOT_AUTHORISED: "A broker refused us or the daemon.",
    ExitCode.STALE_PLAN: "The plan made now is not the one of `--plan-hash` (RCV-1012).",
    ExitCode.AWAITING_APPROVAL: "The recovery waits for `approve` or `reject`.",
    ExitCode.TIMED_OUT: (
        "`--wait` or `wait` took longer than `--timeout`, or no daemon answered; the recovery or command stays."
    ),
    ExitCode.DIFFERENCES: (
        "Verification found differences between source and target, or what `diff` and `topics diff` compare is not the same."
    ),
    ExitCode.DETACHED: (
        "Ctrl-C. What was sent goes on: stderr says so, of a command without an answer with its place on the control topic, or that it may be there."
    ),
}

_HEAD: Final = f"""\
# {PROGRAM}

<!-- Made by `python -m tools.generate`; edit the code instead. -->

`{PROGRAM}` writes control records and reads the status and events topics. Any Kafka producer can do the same:
`--print-record` shows the record of any command, with a `kcat` line that sends it.

- stdout carries data only; progress, hints and questions go to stderr.
- It asks only on a terminal; elsewhere an error names the flag that answers. Only `stop` then goes ahead without having
  asked: an emergency must not wait for a flag.
- `-o json` and `-o yaml` give records as [the contract](contract.md) spells them, `-o jsonl` one record per line,
  `-o jsonpath=.plan.hash` a part of them, `-o name` ids only, `-o wide` a table with more columns. `NO_COLOR` is
  honoured.
- Of the verbs that send a command, `pause`, `resume`, `stop`, `throttle`, `approve`, `reject` and `release` give the
  answer to it, an event `command_accepted` or `command_duplicate`, or with `--wait` the status record; all others give
  the status record. With `--all`, `-o json` and `-o yaml` give one list of these, `-o jsonl` a line for each.
  `--all` sends all its commands before it awaits one answer, a minute at most for all of them; who was told and has not
  answered, who perhaps, and who was not told stands on stderr, and exit code 1 (or 5) says that some were not.
  `explain WORD` gives a list too: a word can mean several things.
- A path at which nothing stands prints nothing and exits 0, as `kubectl` does with a key that is missing: many fields
  are absent until they are known, so a script tests for the empty text. A note on stderr says so. A path that cannot be
  read exits 2.
- Control characters in names and messages of others are shown as `\\u001b`; in JSON and YAML this is the same value.
- Every error is a code, a sentence and a next step; `{PROGRAM} explain CODE` says more about it, offline. With
  `-o json` or `-o jsonl` an error is one line of JSON on stderr:
  `{{"error":{{"code":"RCV-1010","message":"...","next":"...","exit_code":3}}}}`.
- The document of `-f` is read strictly. No key may stand twice; numbers are decimal (`010`, `0x1F` and `1:30` are
  refused); times are text; a text that YAML takes for something else needs quotes. JSON means what it means as a record.
  What an option that may be repeated says of one place, it says once.
- `status` is the same as `get`, `ls` the same as `list`. Every verb takes `-q`, `-v`, `--no-color` and `--debug`,
  wherever they stand.
- Ctrl-C while following or waiting for an answer detaches; the recovery goes on, and the command is handled. At a question
  it is a no.
- A command that the broker has not confirmed (Ctrl-C or a broker that stands still, while it is written) may be on the
  control topic. stderr says so, and how the same user sends the same one, which is carried out once: a whole line, or what
  belongs behind the line that was typed. Errors in JSON then have `commands`, each with `recovery`, `id`, `topic` and
  `fate`: `sent` (with its `offset`), `unsure` or `not_sent`; Ctrl-C is the line
  `{{"detached":{{"message":"...","commands":[...]}}}}`.

## Where recoveryd is

In this order: `--context NAME`, or `--bootstrap HOST:PORT` or `--config FILE`; then `RECOVERYD_CONTEXT`; then
`RECOVERYD_BOOTSTRAP_SERVERS`, `RECOVERYD_CLUSTERS__MAIN__BOOTSTRAP_SERVERS` or `RECOVERYD_CONFIG`; then the context in
use. `-v` says which brokers it came to.

A context that is named is taken whole: no variable of `clusters` or `topics.prefix` changes it. A config that is typed is
filled by variables, but where one says other brokers, another login or another `topics.prefix` than the file, the command
is refused (RCV-4008) and names both. With `--bootstrap` alone, a login that variables say for other brokers
(`RECOVERYD_CONFIG`, too) is refused as well: type `--config` beside it if they belong together. With `--config`, a login
that variables say beside brokers (or a `RECOVERYD_CONFIG`) other than those of the file and those that are typed is
refused. Where variables are to win, as in a deployment, the file is named by `RECOVERYD_CONFIG`. `config show` and
`config validate` read as a daemon does, for which variables come before the file.

A context keeps client properties, the prefix of recoveryd's topics and the address of the daemon under a name, so that
nobody needs the daemon's config on a laptop:

    {PROGRAM} context add prod --bootstrap broker1:9093 --properties client.properties --http https://recoveryd.example.org
    {PROGRAM} context use prod
    {PROGRAM} list --context staging

`client.properties` is what Kafka's own tools take by `--command-config`. A password need not stand in it:
`sasl.jaas.config=... password="${{file:/run/secrets/kafka}}";` is read when it is used. Paths mean what they mean where
you add the context, and are kept whole; one that you write into its file yourself is relative to that file. Contexts are files under
`~/.config/recoveryd/contexts` (`XDG_CONFIG_HOME`) that only you can read; a context with `--http` and no brokers can
look, but not send, and one without `--http` cannot ask the daemon itself (`top`, `lag`, `logs` of another machine). A context
knows the brokers of `clusters.main` and nothing else of the daemon's config: verbs that look at a unit themselves (`unit`,
`retention`, `diagnose`, `doctor --unit`) need `--config`; commands only name units, which the daemon knows.

The daemon's HTTP API (`--http`, or that of a context) is asked through the proxy of `http_proxy` or `https_proxy` where it
is on another machine and not in `no_proxy`; a problem names the proxy. An answer has 30 s, or what is left of `wait --timeout`.
`watch` and `wait` go on while a daemon that answered before is away, and say so after some seconds and when it is back.

## Exit codes

"""

_CONNECTION: Final = "Connection"
_OPTION: Final = ("option", "meaning")


def make_files() -> dict[Path, str]:
    return {FILE: _page()}


def _page() -> str:
    root: Any = typer.main.get_command(app)
    context = root.make_context(PROGRAM, [], resilient_parsing=True)
    exits = table(("code", "meaning"), ((str(int(code)), meaning) for code, meaning in _EXIT_MEANINGS.items()))
    verbs = "\n".join(line for name, verb in _verbs(root, context, "") for line in _section(name, verb, context))
    return f"{_HEAD}{exits}\n\n## Verbs\n\n{verbs}\n{_connection(root, context)}"


def _verbs(group: Any, context: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Full name and command of each verb, in the order of the help."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            if command.invoke_without_command:
                yield f"{prefix}{name}", command
            yield from _verbs(command, context, f"{prefix}{name} ")
        elif not command.hidden:
            yield f"{prefix}{name}", command


def _section(name: str, verb: Any, context: Any) -> Iterator[str]:
    arguments = [p for p in verb.params if p.param_type_name == "argument"]
    words = [p.metavar or p.name.upper() for p in arguments]
    usage = " ".join(_as_typed(word, p.required) for p, word in zip(arguments, words, strict=True))
    yield f"### `{f'{PROGRAM} {name} {usage}'.strip()}`\n"
    yield f"{verb.help}\n"
    options = [
        p for p in verb.params if p.param_type_name == "option" and p.name != "help" and p.rich_help_panel != PANEL
    ]
    rows = [_row(option, context) for option in options if option.rich_help_panel != _CONNECTION]
    if rows:
        yield table(_OPTION, rows) + "\n"


def _as_typed(word: str, is_required: bool) -> str:
    """What may be left out is in brackets; the word of some has them already."""
    return word if is_required or (word.startswith("[") and word.endswith("]")) else f"[{word}]"


def _connection(root: Any, context: Any) -> str:
    """The options that all verbs have which talk to Kafka or the daemon, listed once."""
    options = [p for p in root.get_command(context, "get").params if getattr(p, "rich_help_panel", "") == _CONNECTION]
    rows = table(_OPTION, (_row(option, context) for option in options))
    manners = table(_OPTION, (_row(option, context) for option in root.params if option.rich_help_panel == PANEL))
    return f"## Options of every verb that connects\n\n{rows}\n\n## Options of every verb\n\n{manners}\n"


def _row(option: Any, context: Any) -> tuple[str, str]:
    names = ", ".join(sorted(option.opts, key=len, reverse=True))
    kind = option.metavar or option.display_type(context).strip("<>")
    shown = f"`{names}`" if option.is_flag else f"`{names} {kind}`"
    default = option.default
    told = (
        f" Default: `{getattr(default, 'value', default)}`."
        if default not in {None, False} and option.show_default
        else ""
    )
    variable = f" Also `{option.envvar}`." if option.envvar else ""
    return shown, f"{option.help}{told}{variable}"

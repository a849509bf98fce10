"""The tree of verbs, and the one place where an error becomes an exit code.

A verb returns its exit code (None = 0) or raises; `Root.main` turns what it raises into `RCV-nnnn sentence` and `next:
step` on stderr. No traceback is shown without `--debug`.
"""

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.completion import get_completion_inspect_parameters
from typer.core import TyperGroup

from recoveryd.cli.failure import ExitCode, Failure, exit_code_of, usage
from recoveryd.cli.options import COMPLETE_VARIABLE, PROGRAM, option
from recoveryd.cli.render.manner import manner
from recoveryd.cli.render.manner_options import make_manner_options
from recoveryd.cli.render.output import note, open_missing_streams, print_failure, say, tell_traceback
from recoveryd.cli.send.connect import Tools
from recoveryd.cli.send.waiting import Detached
from recoveryd.cli.verbs import (
    completion,
    config,
    context,
    diagnose,
    doctor,
    explain,
    forecast,
    history,
    hold,
    inspect,
    judge,
    lag,
    logs,
    plan_diff,
    replay,
    reprocess,
    reset,
    retention,
    retry,
    runbook,
    sandbox,
    savepoint,
    scenarios,
    schedule,
    simulate,
    steer,
    top,
    topics,
    unit,
    upgrade,
    watch_group,
)
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd_sandbox.errors import SandboxError

_EPILOG = (
    "Exit codes: 0 done or accepted, 1 failed, 2 usage or config, 3 not found, 4 rejected, 5 not authorised, "
    "6 stale plan, 7 waiting for approval, 8 --wait timed out, 9 differences, 130 Ctrl-C. What each word means: "
    "docs/glossary.md."
)


class Root(TyperGroup):
    """The group of all verbs, with our way to end, and the options that say how it speaks, which every verb takes."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for command in _every(self):
            command.params += make_manner_options()

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002  (we always end the program ourselves)
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Never returns: ends with `SystemExit(exit code)`."""
        open_missing_streams()
        manner.begin(sys.argv[1:] if args is None else args)
        extra["obj"] = extra.get("obj") or Tools()
        if COMPLETE_VARIABLE in os.environ:
            # Registers the shells' answers, which Typer does only together with options that are missing here.
            get_completion_inspect_parameters()
        try:
            code = super().main(
                args, prog_name or PROGRAM, complete_var or COMPLETE_VARIABLE, False, windows_expand_args, **extra
            )
        except Exception as error:  # noqa: BLE001  (the one place where anything becomes an exit code)
            if manner.debug:
                tell_traceback(traceback.format_exc())
            code = _end(error)
        sys.exit(int(code) if isinstance(code, int) else ExitCode.DONE)

    def get_help_option(self, ctx: Any) -> Any:
        """Typer's, but with a default that needs no conversion, since that would load pydantic, which is slow."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


def _every(group: Any) -> Iterator[Any]:
    """The group, and each group and verb in it."""
    yield group
    for command in group.commands.values():
        yield from _every(command) if hasattr(command, "commands") else (command,)


def _end(error: Exception) -> ExitCode:
    """Tell the user, give the exit code."""
    failure: RecoverydError | None = None
    code = ExitCode.FAILED
    match error:
        case Failure():
            failure, code = error, error.exit_code
        case RecoverydError():
            failure, code = error, exit_code_of(error.code.value, ExitCode.FAILED)
        case SandboxError():
            failure = Failure(Code.SANDBOX_FAILED, error.message, error.hint)
        case Detached():
            code = ExitCode.DETACHED
        case typer.Abort():
            note("Aborted: nothing was started or changed.")
        case typer.TyperException():
            failure, code = _usage_failure(error), ExitCode.USAGE
        case BrokenPipeError():
            _forget_stdout()
        case _:
            failure = Failure(Code.UNEXPECTED, f"{type(error).__name__}: {error}")
    if failure is not None:
        print_failure(failure, code)
    return code


def _forget_stdout() -> None:
    """Whoever read our output left (`| head`): the interpreter must not try to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_failure(error: typer.TyperException) -> Failure | None:
    """What the parser found, with the help of the verb it happened in as next step; None when the help itself was the
    message.
    """
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else PROGRAM
    message = error.format_message().replace("\n", " ").strip().rstrip(".")
    ending = "" if message.endswith("?") else "."
    flags = _flags_with_values(context) if "unexpected extra argument" in message else ""
    return usage(f"{message}{ending}", f"See `{where} --help`{flags}.") if message else None


def _flags_with_values(context: "typer.Context | None") -> str:
    """For a verb that takes its values by flags alone, the first of them in a sentence; else ""."""
    params = context.command.params if context is not None else []
    if any(param.param_type_name == "argument" for param in params):
        return ""
    named = [p.opts[0] for p in params if not getattr(p, "is_flag", False) and not getattr(p, "hidden", False)]
    return f"; values are given by flags, as {', '.join(f'`{flag}`' for flag in named[:3])}" if named else ""


app = typer.Typer(
    name=PROGRAM,
    cls=Root,
    help="Recovery on Apache Kafka: replay a range of a topic exactly once, politely, with proof.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        say(f"{PROGRAM} {version('recoveryd')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, option("--version", "Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    _ = version  # acted upon by its callback


for group in (
    replay,
    retry,
    watch_group,
    reprocess,
    reset,
    savepoint,
    upgrade,
    runbook,
    schedule,
    inspect,
    top,
    steer,
    judge,
    logs,
    plan_diff,
    hold,
    lag,
    forecast,
    history,
    unit,
    retention,
    diagnose,
    topics,
    config,
    context,
    explain,
    scenarios,
    doctor,
    simulate,
    sandbox,
    completion,
):
    group.add_to(app)

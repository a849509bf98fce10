"""How a program of the sandbox runs in the foreground and how it ends: what Ctrl-C does, and which exit code says what.

The demos, the game day and the measured response all start a broker and a daemon that nobody else would end, so an
interruption has to come as an exception that their context managers see. What raises no exception, such as SIGKILL, is
left to the keeper.
"""

import signal
from collections.abc import Callable

from recoveryd.errors import RecoverydError
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.keeper import end_with_this

FAILED, UNUSABLE, INTERRUPTED = 1, 2, 130


def run(body: Callable[[], bool], say: Callable[[str], None], fail: Callable[[str], None] | None = None) -> int:
    """0 when everything held, 1 when not or when it failed, 2 for a scenario that cannot be used, 130 after Ctrl-C."""
    # SIGINT too, because a shell may have set it to be ignored; SIGTERM cleans up in the same way.
    for wanted_end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wanted_end, signal.default_int_handler)
    fail = fail or say
    end_with_this()
    try:
        return 0 if body() else FAILED
    except KeyboardInterrupt:
        say("\nInterrupted; everything that was started is stopped.")
        return INTERRUPTED
    except SandboxError as error:
        fail(str(error))
        return FAILED
    except RecoverydError as problem:
        fail(f"{problem}\nnext: {problem.hint}")
        return UNUSABLE

"""Processes that there are although /proc does not show them. Where it is mounted with `hidepid`, those of other users
are hidden, and those of this user that began in another user namespace, as with each start of a service with
`PrivateUsers=`. So what is not seen has not ended: the kernel is asked by a signal that is none.
"""

import os

from recoveryd.adapters.proc import GROUP, numbers, stat_fields


def is_unseen(pid: int, *, of_others: bool = True) -> bool:
    """Whether a process has this number, or is in a group that has it, and nothing of that can be seen. False says
    nothing of what can be seen. `of_others`: also one that this user may not signal.
    """
    # Asked on both sides of the look, since a process may begin or end meanwhile.
    return _is_there(pid, of_others) and not _is_shown(pid) and _is_there(pid, of_others)


def _is_there(pid: int, of_others: bool) -> bool:
    if pid <= 1:  # as a group, that of everybody
        return False
    for ask in (os.kill, os.killpg):
        try:
            ask(pid, 0)
        except PermissionError:
            if of_others:
                return True
        except (OSError, OverflowError):
            continue
        else:
            return True
    return False


def _is_shown(group: int) -> bool:
    """Whether the process itself or a member of its group can be seen, be it a zombie."""
    if stat_fields(group) is not None:
        return True
    return any(fields[GROUP] == str(group) for fields in map(stat_fields, numbers()) if fields)

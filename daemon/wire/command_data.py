"""What the data of every command has."""

from daemon.wire.fields import Reason, Strict


class CommandData(Strict):
    reason: Reason

"""The JSON forms of holds: the data of their commands, the signal by which consumers acknowledge one, the status
record.

No rule lives here. Start at `status`, which programs in other languages read, too.
"""

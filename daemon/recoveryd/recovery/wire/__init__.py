"""The JSON forms that all kinds of recoveries share: data of commands, status records, and those that 0.1.0 wrote.

No rule lives here. Start at `status` for what is stored, at `commands` for what is taken.
"""

"""The JSON forms of schedules: the data of their commands and their status record.

No rule lives here. Start at `command`.
"""

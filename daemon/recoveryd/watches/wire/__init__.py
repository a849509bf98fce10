"""The JSON forms of watches: the data of their command, their status record, and the body of a webhook.

No rule lives here. Start at `command`.
"""

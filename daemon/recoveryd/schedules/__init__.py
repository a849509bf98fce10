"""Commands that are sent again and again, at the times of a cron expression.

A schedule decides when a command is due and asks for it to be sent; what it sends is an ordinary control record.
Start at `firing`, then `following`.
"""

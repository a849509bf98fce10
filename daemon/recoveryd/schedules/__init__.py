"""Commands that are sent again and again, at the times of a cron expression.

A schedule decides when a command is due and asks for it to be sent; what it sends is an ordinary control record.
Nothing here begins a recovery or knows how one ends: it hears the answer to its command and looks at states, as any
sender can. Start at `firing`, then `following`.
"""

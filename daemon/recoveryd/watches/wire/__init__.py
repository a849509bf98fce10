"""How watches look outside: the data of their command, their status record, and what a webhook is sent."""

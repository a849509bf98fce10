"""The JSON forms of holds: the data of their commands, and their status record."""

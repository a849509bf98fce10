"""The JSON forms of schedules: the data of their commands and their status record."""

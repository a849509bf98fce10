"""The measured response: how live traffic answers to a replay at several rates, each held for a while. See `__main__`."""

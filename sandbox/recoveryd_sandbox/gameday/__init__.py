"""The game day: three runs of the same recovery next to live traffic that must not suffer, watched by somebody who is not the daemon. See `__main__`."""

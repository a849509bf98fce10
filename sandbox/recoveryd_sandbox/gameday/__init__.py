"""The game day: three runs of the same recovery next to live traffic that must not suffer, measured by a process
independent of the daemon. See `__main__`.
"""

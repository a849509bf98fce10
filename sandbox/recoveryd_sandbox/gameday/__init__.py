"""The game day: three runs of the same recovery next to live traffic that must not suffer, measured by a process
independent of the daemon. It only measures and judges, by numbers that are fixed before anything runs (`scenario`).
Start at `__main__`, then `day`.
"""

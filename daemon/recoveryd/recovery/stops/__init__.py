"""When a recovery ends by itself: zero lag, caps, deadlines, idleness, event time, losses, errors. The first condition
that holds wins.

How it then ends (drain, read back, say so) is in `recovery.ending`. Start at `auto_stop`.
"""

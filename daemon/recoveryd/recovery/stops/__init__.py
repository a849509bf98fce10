"""When a recovery ends by itself: zero lag, caps, deadlines, idleness, event time, losses, errors. The first condition
that holds wins. Start at `auto_stop`.
"""

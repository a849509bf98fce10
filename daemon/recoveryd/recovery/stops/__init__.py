"""When a recovery ends by itself: zero lag, caps, deadlines, idleness, event time, losses, errors. The first condition
that holds wins.

No condition ends anything itself, and none asks a cluster: each looks at what is observed and says why it holds. How a
recovery then ends (drain, read back, say so) is in `recovery.ending`. Start at `auto_stop`.
"""

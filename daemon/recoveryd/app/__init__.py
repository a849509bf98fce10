"""The daemon as a process: the Faust worker, and how everything is started, watched and ended.

No other package knows Faust. Nothing is decided here: records go to `runtime.intake` as they are. Start at `serve`,
then `feed`.
"""

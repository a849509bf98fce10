"""The daemon as a process: the Faust worker, and how everything is started, watched and ended. No other package knows
Faust.
"""

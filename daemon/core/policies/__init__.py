"""Rules over the state, each a pure function with a value as its answer; none of them acts.

To add one: a module here, its test beside tests/core/policies, its option in `Params` and the config, and its call in `daemon.core.steer` (running
recoveries) or in the handler of the event it judges.
"""

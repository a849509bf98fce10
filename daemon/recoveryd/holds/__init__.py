"""Holds: topics in which nothing may be written or reset for a while, because somebody says so and why.

`spec` is what was asked for, `model` the journaled record, `known` all holds and the index by topic, `held` what other
capabilities ask. A hold does nothing by itself: recoveries look at the index before they begin and at each step
(`recoveryd.recovery.holding`). So nothing here knows recoveries or workflows. Start at `capability`.
"""

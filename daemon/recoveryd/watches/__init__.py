"""Watches: guards of other people's consumer groups, for users who run their own application on cold data.

`spec` is what was asked for, `model` the journaled record, `judge` the rules, `judging` what is kept of their findings,
`looking` handles samples of a group, `ending` is the end and the webhook. A watch copies nothing and starts nothing: it
samples the group until its condition holds, tells so once, and ends. Start at `capability`.
"""

"""Watches: guards of consumer groups that are not ours, for people who run their own application on cold data.

`spec` is what was asked for, `model` the record that is journaled, `judge` the rules, `looking` what looks at a group do to a watch, `ending` its end and
its webhook. A watch copies nothing and starts nothing: it looks until its condition holds, says so once, and ends. Start at `capability`.
"""

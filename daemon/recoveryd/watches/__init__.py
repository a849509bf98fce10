"""Watches: guards of consumer groups that are not ours, for people who run their own application on cold data.

`spec` is what was asked for, `model` the record that is journaled, `judge` the rules, `handlers` what events do to a watch, `delivery` its webhook.
A watch copies nothing and starts nothing: it looks until its condition holds, says so once, and ends.
"""

"""What is wrong with a unit that does not get on: which of six places it is in, and what shows it.

`seen` is what was looked at for a while, `movement` what moved meanwhile, `quotas` whether a quota explains the pace,
`forms` what records look like; `causes` and `runtime` have the rules, `diagnose` puts them together and says from where
to go on. Nothing here looks at a cluster or changes one: who looks is `adapters/kafka/unit_watch`. Start at `diagnose`.
"""

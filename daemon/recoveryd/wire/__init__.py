"""Envelopes: CloudEvents, bounded JSON, kinds of fields, the codec of control records and the status topic.

What a capability's own commands, signals and nouns look like is said in its own `wire`, and comes with it. Only
`event_kinds`, `acls`, `topics` and `transitions` name what capabilities do. Start at `codec`.
"""

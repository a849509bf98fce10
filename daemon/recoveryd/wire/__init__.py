"""Envelopes: CloudEvents, bounded JSON, kinds of fields, the codec of control records and the status topic.

What a capability's own commands, signals and nouns look like is said in its own `wire`; nothing here knows them, they
come with the capabilities. Start at `codec`.
"""

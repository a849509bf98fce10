"""Workflows: what is done to units, step by step, each step checked, read back and undoable.

`positions` says where a group shall stand, partition by partition; `offsets_csv` is the form in which Kafka's own tool
reads and writes such positions. Pure.
"""

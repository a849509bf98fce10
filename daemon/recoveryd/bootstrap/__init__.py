"""Puts the daemon together from its settings: which adapter implements which port, and which part gets which values.

Every part is handed the values it needs, and none of them knows the settings. Nothing runs here, and no rule lives
here. Start at `daemon` for the whole, `outside` for all that Kafka, Spark and others give, `loop` for what decides and
acts, `looks` for what is looked at regularly, `pages` for what people are shown.
"""

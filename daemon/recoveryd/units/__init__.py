"""Units: what gets recovered. An application of Kafka Streams, a consumer group, a connector or a Flink job, with its
topics and the people who own it.

`model` is what the config says of a unit, `topology` the text that Streams describes itself with, `internal_topics`
whose an internal topic is, `compatibility` whether another version goes on where one stopped, `graph` how it all hangs
together, `lint` and `contract` what is missing for a recovery that can be trusted. Pure: what clusters say of a unit
comes as facts, what is done to one is the business of workflows. Start at `model`.
"""

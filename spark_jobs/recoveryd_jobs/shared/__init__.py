"""What the daemon and its jobs must both do or know, besides the records of `contract`: how brokers are met and asked,
what librdkafka's errors mean and what its log may show, how garbage is collected, where tests end a process, what
executors must have.

Each module stands alone and may import confluent-kafka; none knows records, settings or Spark. Something that only one
side needs does not belong here. Start at `agreement` or `garbage`.
"""

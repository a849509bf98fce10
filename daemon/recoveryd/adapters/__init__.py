"""Everything outside, behind the protocols of `ports`: Kafka, Spark, HTTP, the clock, and all of it in memory.

Foreign errors are translated here, once. No rule about recovery lives here. Start at `kafka`; `memory` shows what the
rest of the daemon may expect of an adapter.
"""

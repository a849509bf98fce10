"""A real Apache Kafka, one node or several, for trying out recoveryd and for its tests.

Here are the broker process and its jars, real demo data, a generator of live traffic, and an application of Kafka
Streams. Nothing in `daemon` or `spark_jobs` may depend on this package, except the command line, which offers it as
`recoveryctl sandbox`. Start at `broker`, or at `demo` to see all of it work.
"""

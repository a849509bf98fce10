"""A real Apache Kafka, one node or several, for trying out recoveryd and for its tests.

Here live: the broker process and its jars, real demo data, a live-traffic generator. Nothing in `daemon` or `spark_jobs`
may depend on this package, apart from the command line, which offers it as `recoveryctl sandbox`.
"""

"""The Spark application: lanes that copy exactly once, and the proof that reads both sides again.

`contract` is all that the daemon may import. `main` is the entry point; `driver` schedules, `lane` copies, `verify`
proves, `sources` and `sinks` hold the Kafka clients that read and write. Nothing here imports the daemon. Start at
`driver.driver`, then `lane.life`.
"""

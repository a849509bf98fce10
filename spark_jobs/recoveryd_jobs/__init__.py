"""The Spark application: lanes that copy exactly once, and the proof that reads both sides again.

The daemon may import `contract`, the records between both, and `shared`, what both must do alike. `main` is the entry
point; `driver` schedules, `lane` copies, `verify` proves, `sources` and `sinks` hold the Kafka clients that read and
write. Nothing here imports the daemon. Start at `driver.driver`, then `lane.life`.
"""

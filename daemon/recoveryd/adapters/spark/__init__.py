"""Spark applications as child processes: command line, folders, spare drivers.

What an application does is in `recoveryd_jobs`; when one starts or ends is decided by `recovery.attempts`. No Spark
class is imported: the daemon needs no JVM of its own. Start at `runner`.
"""

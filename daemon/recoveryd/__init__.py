"""recoveryd: the daemon, its rules and its command line. ARCHITECTURE.md has a map of its packages.

Start at `capabilities.py` for what it can do, `kernel/decide.py` for how it decides, `app/serve.py` for how the process
starts and ends. The Spark jobs that copy and compare are in `recoveryd_jobs`, which never imports this package; of
them, this package imports `recoveryd_jobs.contract` and `recoveryd_jobs.shared` only.
"""

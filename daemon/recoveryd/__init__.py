"""recoveryd: the daemon, its rules and its command line. ARCHITECTURE.md is the map of the rooms in here.

Start at `capabilities.py` for what it can do, `kernel/decide.py` for how it decides, `app/serve.py` for how it lives. Jobs that copy and compare are in
`recoveryd_jobs`, which never imports this package; of the jobs, this package knows `recoveryd_jobs.contract` only.
"""

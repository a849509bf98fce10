"""The process that Spark forks its Python workers from, with the lane's modules imported already.

Spark starts it as `python -m recoveryd_jobs.worker_daemon` (`spark.python.daemon.module`). Lanes then need not import
the Kafka client themselves. Nothing may be created at import time here: client handles must not cross the fork.
"""

import recoveryd_jobs.lane.life
import recoveryd_jobs.verify.tasks  # noqa: F401
from recoveryd_jobs.python_path import prefer_compiled

if __name__ == "__main__":
    prefer_compiled()
    from pyspark.daemon import manager

    manager()

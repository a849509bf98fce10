"""Where a process of an application finds pyspark: in the folder it is installed in, before the archive that `spark-submit` puts first.

Both are of one version, because SPARK_HOME is that folder. Modules of the folder are compiled already; those of the archive every process compiles
for itself, which takes longer than all else that Python does at its start. Where only the archive is there, it is used.
"""

import sys
from pathlib import PurePath


def prefer_compiled() -> None:
    """To be called before pyspark is imported."""
    sys.path.sort(key=_is_archive_of_spark)


def _is_archive_of_spark(entry: str) -> bool:
    name = PurePath(entry).name
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))

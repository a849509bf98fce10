"""Makes a process of an application import pyspark from its installed folder rather than from the archive that
`spark-submit` puts first.

Both are of the same version, because SPARK_HOME is that folder. Modules in the folder are compiled already; those in
the archive are compiled by every process anew, which takes longer than all else that Python does when it starts. If
only the archive exists, it is used.
"""

import sys
from pathlib import PurePath


def prefer_compiled() -> None:
    """Call it before pyspark is imported."""
    sys.path.sort(key=_is_archive_of_spark)


def _is_archive_of_spark(entry: str) -> bool:
    name = PurePath(entry).name
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))

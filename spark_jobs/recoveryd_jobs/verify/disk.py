"""Where a task of the proof keeps what does not fit into memory: in files without a name, which disappear with their
process, in the folder where Spark itself spills.

A folder that is full is the worker's trouble and says nothing about the copy, so another attempt may do better.
"""

import contextlib
import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from recoveryd_jobs.errors import JobError

_STEP_INSTRUCTIONS = 100_000  # of SQLite, a few milliseconds where the disk is not waited for
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})


def spill_folder() -> str:
    """The first of Spark's folders, by what Spark tells its Python workers; outside of it the system's."""
    told = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return told if told and Path(told).is_dir() else tempfile.gettempdir()


def open_database(cache_kb: int, tables: str) -> sqlite3.Connection:
    """A private database that lies in memory up to the size of its cache. Raises sqlite3.OperationalError when the disk
    is full, as does its use; `naming_folder` translates that.
    """
    database = sqlite3.connect("", isolation_level=None)
    try:
        folder = spill_folder().replace("'", "''")
        database.execute(f"PRAGMA temp_store_directory='{folder}'")  # the environment is read at the import only
        database.executescript(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{cache_kb};{tables}"
        )
    except BaseException:
        database.close()
        raise
    return database


@contextlib.contextmanager
def in_steps(database: sqlite3.Connection, step: Callable[[], object]) -> Iterator[None]:
    """Call `step` in the middle of statements, which may take long. SQLite lets no exception through, so what `step`
    raises is kept and raised here; the database is of no use then.
    """
    raised: list[BaseException] = []

    def is_to_end() -> bool:
        try:
            step()
        except BaseException as told:  # noqa: BLE001  (raised again below)
            raised.append(told)
        return bool(raised)

    database.set_progress_handler(is_to_end, _STEP_INSTRUCTIONS)
    try:
        yield
    except sqlite3.OperationalError:
        if not raised:
            raise
        raise raised.pop() from None
    finally:
        database.set_progress_handler(None, 0)


@contextlib.contextmanager
def naming_folder() -> Iterator[None]:
    """Raises JobError, which names the folder, for a temporary file that cannot be written."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _FULL:
            raise
        why = f"The proof cannot keep its temporary files in {spill_folder()} of the worker {os.uname().nodename}"
        raise JobError("internal", f"{why}, which may be full: {error}.") from None

"""Offsets in files: the CSV that `reset` reads with --from-file and prints with --export, as
Kafka's own tool has it.
"""

from pathlib import Path
from typing import Any

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.status import Document
from recoveryd.kernel.catalogue import Code


def read_file(connection: Connection, file: Path, unit: str | None, group: str | None) -> Any:
    """What the file says of the group, or of that of the unit, as `to` of a `reset`."""
    from recoveryd.workflows.model.offsets_csv import OffsetsUnreadable, read_offsets  # noqa: PLC0415

    try:
        offsets = read_offsets(file.read_text(encoding="utf-8"), _group_of(connection, unit, group))
    except (OSError, UnicodeDecodeError, OffsetsUnreadable) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise usage(f"{file}: {why}.", "Write [group,]topic,partition,offset in each line.") from None
    return {"offsets": {topic: {str(p): at for p, at in rows.items()} for topic, rows in offsets.items()}}


def plan_as_csv(connection: Connection, document: Document, unit: str | None, group: str | None) -> str:
    """Where each partition would stand."""
    from recoveryd.workflows.model.offsets_csv import write_offsets  # noqa: PLC0415

    offsets: dict[str, dict[int, int]] = {}
    for change in document["plan"]["changes"]:
        offsets.setdefault(change["name"], {})[change["partition"]] = change["to"]
    return write_offsets(_group_of(connection, unit, group), offsets)


def _group_of(connection: Connection, unit: str | None, group: str | None) -> str:
    if group is not None:
        return group
    found = connection.settings.units().get(unit or "")
    if found is None:
        raise Failure(Code.UNKNOWN_UNIT, f"The config has no unit {unit!r}.", otherwise=ExitCode.NOT_FOUND)
    return found.consumer_group

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
    from recoveryd.workflows.model.offsets_csv import GroupUnknown, OffsetsUnreadable, read_offsets  # noqa: PLC0415

    try:
        offsets = read_offsets(file.read_text(encoding="utf-8"), group or _group_here(connection, unit))
    except GroupUnknown as unknown:
        raise Failure(
            Code.UNKNOWN_UNIT,
            f"{file}: {unknown}, and the config here has no unit {unit!r}, which would say whether it is that.",
            "Give --group instead, or --config with the daemon's; or leave the groups out of the file.",
            otherwise=ExitCode.NOT_FOUND,
        ) from None
    except (OSError, UnicodeDecodeError, OffsetsUnreadable) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise usage(f"{file}: {why}.", "Write [group,]topic,partition,offset in each line.") from None
    return {"offsets": {topic: {str(p): at for p, at in rows.items()} for topic, rows in offsets.items()}}


def plan_as_csv(document: Document) -> str:
    """Where each partition would stand, of the group that the daemon took the unit for."""
    from recoveryd.workflows.model.offsets_csv import write_offsets  # noqa: PLC0415

    offsets: dict[str, dict[int, int]] = {}
    for change in document["plan"]["changes"]:
        offsets.setdefault(change["name"], {})[change["partition"]] = change["to"]
    return write_offsets(document["internal"]["spec"]["group"], offsets)


def _group_here(connection: Connection, unit: str | None) -> str | None:
    """That of the unit by the config here; None where this is not the daemon's, and the unit is not known."""
    found = connection.settings.units().get(unit or "")
    return None if found is None else found.consumer_group

"""What is special about setting offsets where a framework keeps them in its own way. Of Flink nothing is asked here:
what has to be done is written out, as commands for a person.
"""

from collections.abc import Iterator
from typing import Final

from recoveryd.units.model import Unit, UnitKind

_FLINK: Final = (
    "a job of Flink is no member of its group, so a group without members does not say that it is stopped; nothing is asked of Flink",
    (
        "Flink commits offsets, and reads them only where a job starts without a savepoint or checkpoint and its source begins with "
        "OffsetsInitializer.committedOffsets() (in SQL: scan.startup.mode = group-offsets): a job that starts with `-s` goes on with the "
        "offsets of its state, and commits those over what was set"
    ),
)


def framework_findings(unit: Unit | None) -> Iterator[str]:
    if unit is not None and unit.connector:
        yield f"Kafka Connect stops the connector {unit.group}, sets its offsets, which are read back, and resumes it"
    if unit is not None and unit.kind is UnitKind.FLINK:
        yield from _FLINK
        yield f"before: {flink_stop(unit)}"
        yield f"afterwards: {flink_start(unit)}"


def flink_stop(unit: Unit) -> str:
    return (
        f"stop the job of {unit.name} (group.id {unit.group}) with a savepoint to go back to: `flink list --running`, then "
        "`flink stop --savepointPath SAVEPOINTS JOB_ID`"
    )


def flink_start(unit: Unit) -> str:
    return (
        f"start the job of {unit.name} from the offsets of {unit.group}, without its state: `flink run --detached JAR`; to go back "
        "instead, `flink run --detached --fromSavepoint SAVEPOINT JAR` after a rollback"
    )


def source_connector(unit: Unit) -> str:
    at = f"/connectors/{unit.group}"
    return f"At Kafka Connect: PUT {at}/stop, GET {at}/offsets, PATCH them or DELETE {at}/offsets to begin anew, PUT {at}/resume."

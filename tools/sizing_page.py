"""docs/how-to/size-it.md: how large an installation has to be, from the numbers that docs/performance.md measured.

The numbers stand in that page only; a row that it has no more is an error here, so the table never shows old ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.markdown import table

PAGE: Final = Path("docs/how-to/size-it.md")
MEASURED: Final = Path(__file__).resolve().parents[1] / "docs" / "performance.md"


@dataclass(frozen=True, slots=True)
class Fact:
    """What somebody wants to know, and the row of docs/performance.md that says it: the beginnings of its section and
    of its measurement. `note` is text with one group, searched in the section's notes instead.
    """

    question: str
    section: str
    row: str = ""
    note: str = ""


DAEMON: Final = (
    Fact("memory of a leading, idle daemon", "Size and start", "memory of a leading, idle daemon"),
    Fact("the same with 10,000 recoveries known", "Size and start", "memory with 10,000 recoveries known"),
    Fact("processor time for looking at 10,000 partitions of 10 groups every 5 s", "Polling offsets", "looking at 10,000"),
    Fact("processor time while 9 replays of 1,000 partitions run", "Hearing many partitions", "9 replays of 1,000 partitions, all"),
    Fact("commands, answered and journaled", "Control records", "1,000 commands"),
    Fact("from the start of the process to leading, 10,000 recoveries", "Size and start", "process start to leading with 10,000"),
)  # fmt: skip
COPIES: Final = (
    Fact("2 lanes on 2 cores, records of 1 kB", "Identity replay: 600,000 of 1 kB", note=r"lanes copy ([\d,]+ records/s)"),
    Fact("2 lanes on 2 cores, flights of about 120 bytes", "Identity replay: 1,010,328", note=r"lanes copy ([\d,]+ records/s)"),
    Fact("processor time of clients for a million records of 1 kB, with digests", "Identity replay: 600,000 of 1 kB", "lanes, verify digest, client CPU"),
    Fact("processor time of the broker for the same", "Identity replay: 600,000 of 1 kB", "lanes, verify digest, broker CPU"),
    Fact("a proof by the source, both sides together", "Proof by the source: 600,000 of 1 kB", note=r"reads ([\d,]+ records/s)"),
    Fact("memory of a task of the proof, at most", "Proof by the source: 3,000,000", "memory of a task of the proof"),
    Fact("Kafka clients of a lane", "Kafka clients", "Kafka clients of a lane, 3 brokers"),
    Fact("threads of a lane's process, 3 brokers", "Kafka clients", "threads of a lane's process, 3 brokers"),
    Fact("from a command to the first copied record", "Start of a recovery", "command to first copied record, cold"),
    Fact("the same with a spare driver (`warm: 1`)", "Start of a recovery", "command to first copied record, spare"),
)  # fmt: skip

_TEXT: Final = """\
# How large it has to be

Made by `make docs` from [the measurements](../performance.md): each number below is a median measured there, on one machine
with two cores that broker, Spark and daemon share. Yours are others. Measure them with `make bench`, and take from here
what grows with what.

Measured on: {machine}

## The daemon

{daemon}

One daemon serves all clusters that it reaches, and needs no disk. A core and 256 MB are plenty; a standby needs the
same. `limits.keep_terminal_most` bounds what it remembers of recoveries that have ended.

## Copies and proofs

{copies}

- **Lanes**: divide the rate that you want by that of one lane, half of the first row where cores are the limit. A
  partition has one lane at most, so more lanes than partitions copy nothing faster; and beside live traffic the
  [controller](../policies/throttle.md) decides, not the number of lanes.
- **Memory**: about 700 MB for each recovery that runs at once beside the daemon (`profiles.NAME.driver_memory`, 512 MB of heap,
  is most of it), and the table's row for each task of a proof.
- **Brokers**: a copy is read once, written once with all replicas, and read again by its proof. What that costs live
  traffic is measured while it runs, and `recoveryctl replay --plan-only` says the bytes beforehand.
- **Disk of a proof**: only where keys choose the partition. For a copy by recoveryd, on each side 32 bytes for each receipt and
  each target partition that it wrote to: 512 MB in all for 125,000 receipts over 64 partitions. They lie in Spark's folder, which
  is in `work_dir` (with executors elsewhere, on their disks), and are there twice while Spark brings both sides together.
  Where that folder is in memory, as in `compose.yaml`, it counts for its limit. What a comparison without receipts needs is in
  [verify](../verify.md#what-is-compared).
- **Disk of the target**: the plan's bytes times replicas; `recoveryctl replay --plan-only` shows both.

## Where it runs

| | daemon | recoveries at once | memory | cores |
| --- | --- | --- | --- | --- |
| to try it, `compose.yaml` | 1 | 2 | 2 GB (`mem_limit`) | 2 |
| `kubernetes.yaml` | 1, or 2 with a standby | 4 | 3 GB (`limits`), 1 GB asked for | half of one asked for, no limit; `local[2,4]` is 2 lanes at once |
| a machine of its own, `recoveryd.service` | 1 | 5 | 4 GB (`MemoryMax`) | 4 |
| `kubernetes-spark.yaml` | 1 | as executors allow | 3 GB here, and 1 GB of heap for each executor of 2 cores | executors have 4 in all |

The memory is what these files say; recoveries at once are what fits into it at 700 MB each, beside the daemon.

## Topics of its own

Partitions and retention are fixed ([contract](../contract.md)). What grows: the ledger, by one receipt of about 490 bytes for each partition
and chunk while a recovery runs (a partition that is followed for a day writes at most 17,280), removed when the recovery
is forgotten; the journal, by a record for each recovery that is remembered.
"""


def make_files() -> dict[Path, str]:
    return {PAGE: render(MEASURED.read_text(encoding="utf-8"))}


def render(measured: str) -> str:
    """The page. Raises LookupError for a fact that `measured`, the text of docs/performance.md, does not have."""
    [machine] = re.findall(r"^Machine: (.*)$", measured, re.MULTILINE)
    return _TEXT.format(machine=machine, daemon=_facts(DAEMON, measured), copies=_facts(COPIES, measured))


def _facts(facts: Sequence[Fact], measured: str) -> str:
    return table(("", "measured"), [(fact.question, look_up(fact, measured)) for fact in facts])


def look_up(fact: Fact, measured: str) -> str:
    sections = [text for text in re.split(r"^## ", measured, flags=re.MULTILINE) if text.startswith(fact.section)]
    if len(sections) != 1:
        raise LookupError(f"docs/performance.md has {len(sections)} sections that begin with {fact.section!r}")
    if fact.note:
        found = re.findall(fact.note, sections[0])
    else:
        rows = [line.strip("| ").split(" | ") for line in sections[0].splitlines() if line.startswith(f"| {fact.row}")]
        found = [row[1] for row in rows]
    if len(found) != 1:
        raise LookupError(f"docs/performance.md, {fact.section}: {len(found)} rows for {fact.row or fact.note!r}")
    return str(found[0])

"""The records that the daemon and its Spark jobs exchange. Standard library only. The daemon imports this room and
`shared`, and nothing else of the jobs.

Every record carries a version and is decoded strictly, except that unknown fields are ignored, so that a newer writer
can add some. All times are milliseconds, all ranges half-open. Start at `specs` for the way to the lanes, at `reports`
for the way back, at `ledger_records` for what proves.
"""

from recoveryd_jobs.contract.coding import VERSION, ContractError, decode, encode
from recoveryd_jobs.contract.ledger_records import (
    DIGEST_FORM,
    LedgerHead,
    LedgerRow,
    Receipt,
    TargetRun,
    Times,
    spanning,
    spanning_copied,
)
from recoveryd_jobs.contract.names import (
    chunk_header,
    copy_client_id,
    head_key,
    progress_key,
    read_chunk_header,
    receipts_partition,
    transactional_id,
)
from recoveryd_jobs.contract.reports import (
    ERROR_CODES,
    REPORT_BYTES_MAX,
    Difference,
    DriverHeartbeat,
    LaneHeartbeat,
    LanePosition,
    Verification,
    decode_progress,
)
from recoveryd_jobs.contract.specs import (
    ChunkLimits,
    ControlSpec,
    Directive,
    JobSpec,
    LaneSpec,
    PartitionRange,
    ReceiptsHome,
    SourceSpec,
    TargetSpec,
)

__all__ = [
    "DIGEST_FORM",
    "ERROR_CODES",
    "REPORT_BYTES_MAX",
    "VERSION",
    "ChunkLimits",
    "ContractError",
    "ControlSpec",
    "Difference",
    "Directive",
    "DriverHeartbeat",
    "JobSpec",
    "LaneHeartbeat",
    "LanePosition",
    "LaneSpec",
    "LedgerHead",
    "LedgerRow",
    "PartitionRange",
    "Receipt",
    "ReceiptsHome",
    "SourceSpec",
    "TargetRun",
    "TargetSpec",
    "Times",
    "Verification",
    "chunk_header",
    "copy_client_id",
    "decode",
    "decode_progress",
    "encode",
    "head_key",
    "progress_key",
    "read_chunk_header",
    "receipts_partition",
    "spanning",
    "spanning_copied",
    "transactional_id",
]

"""The difference of two savepoints, as a document and for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recoveryd.cli.render.tables import columns

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.workflows.model.cut_diff import InputMove, StoreDiff

_PARTITIONS_SHOWN = 20


def diff_document(
    before: str, after: str, inputs: "Sequence[InputMove]", stores: "Sequence[StoreDiff]"
) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "inputs": [{"topic": m.topic, "partition": m.partition, "before": m.before, "after": m.after} for m in inputs],
        "stores": [
            {
                "store": s.store,
                "keys_before": s.keys_before,
                "keys_after": s.keys_after,
                "added": s.added,
                "changed": s.changed,
                "removed": s.removed,
                "samples": {kind: [_text(key) for key in keys] for kind, keys in s.samples.items()},
                "later_before": s.later_before,
                "later_after": s.later_after,
            }
            for s in stores
        ],
    }


def diff_parts(document: dict[str, Any]) -> "list[RenderableType]":
    table = columns("STORE", ">KEYS BEFORE", ">KEYS AFTER", ">ADDED", ">CHANGED", ">REMOVED", "SOME OF THEM")
    for store in document["stores"]:
        some = "; ".join(f"{kind}: {', '.join(keys)}" for kind, keys in store["samples"].items())
        numbers = [f"{store[name]:,}" for name in ("keys_before", "keys_after", "added", "changed", "removed")]
        table.add_row(store["store"], *numbers, some or "none")
    moved = columns("INPUT", ">PARTITION", ">BEFORE", ">AFTER", ">MOVED")
    for row in document["inputs"][:_PARTITIONS_SHOWN]:
        both = row["before"] is not None and row["after"] is not None
        how_far = f"{row['after'] - row['before']:+,}" if both else ""
        moved.add_row(row["topic"], str(row["partition"]), _offset(row["before"]), _offset(row["after"]), how_far)
    left = len(document["inputs"]) - _PARTITIONS_SHOWN
    return [
        table,
        *_later(document),
        "",
        moved,
        *([f"and {left} more partitions; all of them with -o json"] if left > 0 else []),
    ]


def _later(document: dict[str, Any]) -> "list[RenderableType]":
    """What somebody wrote to the copies is none of the savepoints."""
    return [
        f"Up to {store[f'later_{side}']:,} records came to the copy of {store['store']} after {document[side]} was made. "
        "They are not compared."
        for store in document["stores"]
        for side in ("before", "after")
        if store[f"later_{side}"]
    ]


def _offset(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def _text(key: bytes) -> str:
    """As it was written, when it is text; keys of windows and of other serializers are not."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"

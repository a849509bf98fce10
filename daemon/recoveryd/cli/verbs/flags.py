"""The flags of `replay` and `verify`, a row each. A field that is new in the contract needs one row here."""

from dataclasses import replace
from typing import Literal

from recoveryd.cli.send import values
from recoveryd.cli.verbs.flag_table import Flag, FlagTable


def _start(text: str, flag: str) -> object:
    return values.parse_position(text, flag, values.FROM_WORDS)


def _stop(text: str, flag: str) -> object:
    return values.parse_position(text, flag, values.TO_WORDS)


_HOW, _LIMITS = "How", "Limits"
_BYTES_FORM = "SIZE"
_POSITION = "POSITION"

_REPLAY: tuple[Flag, ...] = (
    Flag("source", ("source", "topic"), "Topic to read.", "TOPIC"),
    Flag("from", ("source", "from"), "earliest, offset:N, offsets:0=N,1=N, time with zone, or -2h.", _POSITION, read=_start),
    Flag(
        "to", ("source", "to"), "latest (the end as of now), caught_up (ends by itself at zero lag), never, offset(s), time, or -2h.",
        _POSITION, read=_stop,
    ),
    Flag(
        "partitions", ("source", "partitions"), "Only these: 0,1 or 0-3; all when left out.", "LIST",
        read=lambda text, _flag: values.parse_partitions(text),
    ),
    Flag("source-cluster", ("source", "cluster"), "Named cluster of the daemon's config.", "NAME"),
    Flag("target", ("target", "topic"), "Topic to write.", "TOPIC"),
    Flag("create", ("target", "create"), "Create the target with the partitions of the source; it keeps all records.", kind=bool),
    Flag("target-cluster", ("target", "cluster"), "Named cluster of the daemon's config.", "NAME"),
    Flag("on-existing", ("target", "on_existing"), "What to do when the target has records already.", kind=Literal["refuse", "append"]),
    Flag("mapping", ("target", "mapping"), "Which partition of the target a record goes to.", kind=Literal["same", "key_hash"], panel=_HOW),
    Flag(
        "add-header", ("target", "headers", "add"), "Header to add; may be repeated.", "NAME=TEXT", list[str],
        lambda pairs, _flag: values.parse_headers(pairs), _HOW,
    ),
    Flag("drop-header", ("target", "headers", "drop"), "Header to leave out; may be repeated.", "NAME", list[str], panel=_HOW),
    Flag(
        "on-data-loss", ("on_data_loss",), "What to do when part of the range is gone.", kind=Literal["fail", "continue"], panel=_HOW
    ),
    Flag("verify", ("verify",), "How the target is proven.", kind=Literal["source", "digest", "count", "none"], panel=_HOW),
    Flag("profile", ("job", "profile"), "Spark profile of the daemon's config.", "NAME", panel=_HOW),
    Flag("plan-hash", ("plan_hash",), "Run only if the plan made now has this hash.", "HASH", panel=_HOW),
    Flag(
        "max-bytes-per-s", ("limits", "max_bytes_per_s"), "Rate of all lanes together, like 10MB.", _BYTES_FORM,
        read=values.parse_size, panel=_LIMITS,
    ),
    Flag(
        "max-records-per-s", ("limits", "max_records_per_s"), "Rate of all lanes together.", "N",
        read=values.parse_count, panel=_LIMITS,
    ),
    Flag("max-bytes", ("limits", "max_bytes"), "Stop after copying this much.", _BYTES_FORM, read=values.parse_size, panel=_LIMITS),
    Flag("max-records", ("limits", "max_records"), "Stop after copying this many.", "N", read=values.parse_count, panel=_LIMITS),
    Flag("max-lanes", ("limits", "max_lanes"), "Most lanes that copy at once.", "N", read=values.parse_count, panel=_LIMITS),
    Flag(
        "max-runtime", ("limits", "max_runtime"),
        "Stop so long after the first attempt began, like 2h; pauses and restarts count.", "DURATION", panel=_LIMITS,
    ),
    Flag("deadline", ("limits", "deadline"), "Stop at this time with zone, or after 2h.", "TIME", panel=_LIMITS),
    Flag(
        "event-time", ("limits", "event_time"), "Stop when all partitions are past records of this time with zone.",
        "TIME", panel=_LIMITS,
    ),
    Flag("idle", ("limits", "idle"), "Stop when nothing came for this long, like 60s.", "DURATION", panel=_LIMITS),
    Flag(
        "mode", ("limits", "mode"), "controller yields to live traffic; when left out, it is taken where something is protected.",
        kind=Literal["unlimited", "fixed", "controller"], panel=_LIMITS,
    ),
    Flag("weight", ("limits", "weight"), "Share next to other replays, 1 when left out.", "N", float, panel=_LIMITS),
    Flag("tier", ("limits", "tier"), "Recoveries of a lower tier get their rate first; 0 to 9.", "N", int, panel=_LIMITS),
    Flag(
        "override-live-slo", ("limits", "override_live_slo"), "Start although live traffic is over its SLO.", kind=bool,
        panel=_LIMITS,
    ),
    Flag("reason", ("reason",), "Why, for the record; required (1 to 500 characters).", "TEXT"),
)  # fmt: skip

REPLAY = FlagTable("replay", _REPLAY, ("source", "from", "to", "target", "reason"))


def _pinned(text: str, flag: str) -> object:
    return values.parse_position(text, flag, values.PINNED_WORDS)


_BY_NAME = {flag.name: flag for flag in _REPLAY}
_SAME = (
    "plan-hash", "profile", "max-bytes-per-s", "max-records-per-s", "max-runtime", "deadline", "mode", "weight", "tier",
    "override-live-slo",
)  # fmt: skip
_WHAT = "What to compare"
_VERIFY: tuple[Flag, ...] = (
    Flag("source", ("source", "topic"), "Topic that was copied.", "TOPIC", panel=_WHAT),
    Flag(
        "from", ("source", "from"), "earliest (when left out), offset:N, offsets:0=N,1=N, time with zone, or -2h.", _POSITION,
        read=_start, panel=_WHAT,
    ),
    Flag(
        "to", ("source", "to"), (
            "latest (when left out: the end as of now), offset(s), time, or -2h; a time leaves out later records of both "
            "sides."
        ),
        _POSITION, read=_pinned, panel=_WHAT,
    ),
    replace(_BY_NAME["partitions"], panel=_WHAT),
    replace(_BY_NAME["source-cluster"], panel=_WHAT),
    Flag("target", ("target", "topic"), "The copy, whoever made it; it is only read.", "TOPIC", panel=_WHAT),
    Flag("target-from", ("target", "from"), "Where the copy begins; as --from when left out.", _POSITION, read=_start, panel=_WHAT),
    replace(_BY_NAME["target-cluster"], panel=_WHAT),
    Flag(
        "compare", ("compare",), "Every record, or the last value of each key (compacted topics).",
        kind=Literal["records", "latest"], panel=_HOW,
    ),
    Flag("mapping", ("mapping",), "Which partition of the target a record goes to.", kind=Literal["same", "key_hash"], panel=_HOW),
    Flag(
        "add-header", ("headers", "add"), "Header that the copy added; may be repeated.", "NAME=TEXT", list[str],
        lambda pairs, _flag: values.parse_headers(pairs), _HOW,
    ),
    Flag("drop-header", ("headers", "drop"), "Header that the copy left out; may be repeated.", "NAME", list[str], panel=_HOW),
    *(_BY_NAME[name] for name in _SAME),
    Flag("reason", ("reason",), "Why, for the record; says what is compared when left out.", "TEXT", panel=_WHAT),
)  # fmt: skip

VERIFY = FlagTable("verify", _VERIFY, ("source", "target"))

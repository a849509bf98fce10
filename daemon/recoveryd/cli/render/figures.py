"""Numbers and times as people read them. Pure text, one form each; `-` stands for what is not known."""

from datetime import UTC, datetime

from recoveryd.cli.status import Document

NONE = "-"
_SIZES = ("B", "kB", "MB", "GB", "TB")


def count(number: float | None) -> str:
    return NONE if number is None else f"{number:,.0f}"


def size(number_bytes: float | None) -> str:
    """`41.2 MB`, in powers of ten as Kafka's own tools and networks count."""
    if number_bytes is None:
        return NONE
    value = float(number_bytes)
    for unit in _SIZES:
        if value < 1000 or unit == _SIZES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def rate(bytes_per_s: float | None) -> str:
    return NONE if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def limit(name: str, value: object) -> str:
    """A limit of a recovery, read by the unit in its name."""
    if not isinstance(value, int | float):
        return str(value)
    if name.endswith("bytes_per_s"):
        return rate(value)
    return size(value) if name.endswith("bytes") else count(value)


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds is None:
        return NONE
    if 0 < seconds < 1:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit_s, unit, smaller_s, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // smaller_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def percent(ratio: float | None) -> str:
    """Rounded down, so that 100 % means all of it."""
    return NONE if ratio is None else f"{int(ratio * 100)}%"


def age(moment: str | None, now: datetime) -> str:
    """How long ago an RFC 3339 time was."""
    then = parse_time(moment)
    return NONE if then is None else duration(max(0.0, (now - then).total_seconds()))


def clock_time(moment: str | None) -> str:
    """`2026-11-21 06:00:05.120` (UTC)."""
    then = parse_time(moment)
    return NONE if then is None else f"{then.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{then.microsecond // 1000:03d}"


def parse_time(moment: str | None) -> datetime | None:
    if not moment:
        return None
    try:
        return datetime.fromisoformat(moment)
    except ValueError:
        return None


def progress_ratio(document: Document) -> float | None:
    """Share of the planned offsets that is durable, 0..1 (of a watch: of the partitions that are there; of a workflow:
    of its steps); None without a plan or while following a live head.
    """
    if document.get("workflow"):
        steps = document.get("steps") or ()
        return sum(step["state"] == "done" for step in steps) / len(steps) if steps else None
    watched = (document.get("watch") or {}).get("progress") or {}
    if watched.get("planned"):
        return float(watched["done"] / watched["planned"])
    plan, progress = document.get("plan"), document.get("progress") or {}
    if not plan:
        return None
    if document.get("kind") == "verification":
        return verified_ratio(document)
    starts = {p["partition"]: p["start"] for p in plan["source"]["partitions"]}
    stops = {p["partition"]: p["stop"] for p in plan["source"]["partitions"]}
    if any(stop is None for stop in stops.values()):
        return None
    positions = {p["partition"]: p["position"] for p in progress.get("partitions") or []}
    wanted = sum(stops[p] - starts[p] for p in stops)
    done = sum(min(max(positions.get(p, starts[p]), starts[p]), stops[p]) - starts[p] for p in stops)
    return done / wanted if wanted else 1.0


def verified_ratio(document: Document) -> float | None:
    """Share of the offsets of both sides that the verification has read; all of them once it has a verdict. None while
    it reads nothing.
    """
    progress, verification = document.get("progress") or {}, document.get("verification") or {}
    if verification.get("result") in {"match", "mismatch"}:
        return 1.0
    whole = progress.get("offsets_to_verify")
    return min(1.0, progress.get("verified_offsets", 0) / whole) if whole else None

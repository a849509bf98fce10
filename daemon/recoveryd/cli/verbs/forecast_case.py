"""What `recoveryctl forecast` was asked, as values, and the answer made from them by the same rules that judge a plan.

Pure: no broker, no recovery, no clock. The notes say what the usual rules of thumb leave out for this very case.
"""

from dataclasses import dataclass, replace

from recoveryd.forecast.completion import ForecastRates, Work, duration_s, forecast
from recoveryd.forecast.cost import Pricing, Usage
from recoveryd.forecast.estimate import contended_rate
from recoveryd.forecast.outlook import MARGINAL_SPEED_UP, NEVER_RATIO, SLOW_SPEED_UP
from recoveryd.forecast.retention import Retention
from recoveryd.forecast.view import ForecastView, cost_of, make_view, storage_of

READ_ONLY_LOSS = 0.2
_NOT_KNOWN = float("inf")


@dataclass(frozen=True, slots=True)
class ForecastCase:
    """Rates in records/s, sizes in bytes, times in seconds. `margin` = records between the position and a log start
    that advances at the live rate.
    """

    window_s: float
    backlog: float
    replay: float
    live: float
    is_moving: bool = False
    is_contended: bool = False
    record_bytes: float | None = None
    spread: float = 0.0
    startup_s: float = 0.0
    deadline_s: float | None = None
    retention_s: float | None = None
    age_s: float | None = None
    margin: float | None = None
    lanes: int | None = None
    replication_factor: int = 1
    brokers: int | None = None
    pricing: Pricing = Pricing()

    @property
    def sustained(self) -> float:
        """The replay rate that is counted on: a fifth less when it was measured with nobody else at work."""
        return contended_rate(self.replay, READ_ONLY_LOSS) if self.is_contended else self.replay

    @property
    def work(self) -> Work:
        return Work(self.backlog, self.window_s, self.is_moving, self.startup_s, self.lanes)

    @property
    def rates(self) -> ForecastRates:
        return ForecastRates(self.sustained, self.live, self.spread * self.sustained, self.spread * self.live)


def answer(case: ForecastCase) -> ForecastView:
    """The forecast of the case, with storage and cost where they can be told."""
    retention = _retention(case)
    found = forecast(case.work, case.rates, retention, case.deadline_s)
    view = replace(
        make_view(found, case.work, case.rates),
        rate_source="given",
        live_source="given",
        deadline_s=case.deadline_s,
        slack_s=None if case.retention_s is None else round(retention.slack_s, 1),
    )
    if case.record_bytes is None:
        return view
    kept = case.backlog * case.record_bytes
    usage = Usage(
        executors=case.lanes or 1,
        seconds=view.eta_seconds.mid or 0.0,
        bytes_read=found.processed * case.record_bytes,
        bytes_out=found.processed * case.record_bytes,
        replication_factor=case.replication_factor,
        cross_share=case.pricing.cross_share,
        kept_bytes=kept * case.replication_factor,
        kept_s=case.pricing.keep_s,
    )
    cost = cost_of(usage, case.pricing) if view.eta_seconds.mid is not None else None
    return replace(view, storage=storage_of(kept, case.replication_factor, case.brokers), cost=cost)


def _retention(case: ForecastCase) -> Retention:
    return Retention(
        margin=_NOT_KNOWN if case.margin is None else case.margin,
        advance=0.0 if case.margin is None else case.live,
        retention_s=_NOT_KNOWN if case.retention_s is None else case.retention_s,
        age_s=case.window_s if case.age_s is None else case.age_s,
        startup_s=case.startup_s,
    )


def notes(case: ForecastCase, view: ForecastView) -> list[str]:
    """What rules of thumb miss here, each a sentence."""
    told = [_moving_note(case, view), _start_note(case), *_contended_notes(case), _slow_note(case, view)]
    told += [_storage_note(case, view), _retention_note(case)]
    return [note for note in told if note]


def _moving_note(case: ForecastCase, view: ForecastView) -> str:
    if view.bounded_s is None:
        return ""
    if view.moving_s is None:
        return (
            f"Window / speed-up holds for a pinned end only ({view.bounded_s:,.1f} s): behind the moving head it never "
            f"catches up, because {case.live:,.0f}/s arrive meanwhile."
        )
    more = view.moving_s / view.bounded_s - 1 if view.bounded_s else 0.0
    return (
        f"Window / speed-up is the time to a pinned end, {view.bounded_s:,.1f} s; what arrives meanwhile makes it "
        f"{view.moving_s:,.1f} s behind the moving head ({more:+.3%})."
    )


def _start_note(case: ForecastCase) -> str:
    if not case.startup_s:
        return "Start-up is not counted; a Spark application takes 2 to 15 s, a crowded cluster minutes (--startup)."
    without = duration_s(Work(case.backlog, case.window_s, is_moving=False), case.sustained, case.live)
    return f"Start-up is {case.startup_s:,.0f} s on top of {without:,.1f} s of copying."


def _contended_notes(case: ForecastCase) -> list[str]:
    if not case.is_contended:
        return []
    told = [
        (
            f"A producer beside the replay takes about a fifth of a read-only rate: {case.replay:,.0f}/s become "
            f"{case.sustained:,.0f}/s. The fifth was measured once, on one cluster: measure yours."
        )
    ]
    if case.record_bytes is not None:
        told.append(
            f"By bytes that is {case.sustained * case.record_bytes / 1e6:,.1f} MB/s at "
            f"{case.record_bytes:,.0f} bytes a record; "
            "a rate by count and one by bytes agree only at the size they were measured with (2.6 M/s less a fifth is "
            "2.08 M/s, 250 MB/s less a fifth 2.0 M/s of 100 bytes)."
        )
    return told


def _slow_note(case: ForecastCase, view: ForecastView) -> str:
    if view.speed_up is None or view.speed_up > MARGINAL_SPEED_UP:
        return ""
    if view.speed_up > SLOW_SPEED_UP:
        return f"Below {MARGINAL_SPEED_UP:.0f} times real time small changes of either rate move the end far away."
    if case.is_moving:
        return (
            f"`Impractical when the time approaches the window` begins at {SLOW_SPEED_UP:.0f} times real "
            "time, where the "
            f"moving head doubles it; at {NEVER_RATIO:.2f} times the live rate and below it is called never."
        )
    return (
        "A pinned end is reached at any rate; but the slower the copy, the longer the backlog that has "
        "formed behind it."
    )


def _storage_note(case: ForecastCase, view: ForecastView) -> str:
    storage = view.storage
    if storage is None or case.brokers is None or storage.per_broker_bytes is None:
        return ""
    return (
        f"Storage of one replica is {storage.replica_bytes / 1e12:,.3f} TB; each of {case.brokers} brokers holds "
        f"{storage.per_broker_bytes / 1e12:,.3f} TB only because there are {case.replication_factor} replicas."
    )


def _retention_note(case: ForecastCase) -> str:
    if case.retention_s is None and case.margin is None:
        return "Retention is not counted; without --retention or --margin nothing is said about losing the race."
    return "Deletion is by whole segment and late, so the real slack is longer; do not rely on it."

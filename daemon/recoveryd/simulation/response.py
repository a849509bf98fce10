"""The measured response of a real broker: how live traffic answers to a replay at several rates, as `make response`
measured it, and its file.

Standard library only, so that the simulator can read it anywhere. The classes are the form of the file: `read_response`
refuses what they do not name. Rates are bytes per second of keys and values.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

FORMAT: Final = "recoveryd-response/2"
FILE: Final = "response.json"
_BYTES_MOST: Final = 4 * 1024 * 1024
_STEPS_MOST, _SECONDS_MOST = 200, 3_600
_SHARES_LEAST, _SECONDS_LEAST = 3, 2  # rates and seconds, so that there is a curve and a noise


class BadResponse(ValueError):  # noqa: N818  (named for what happened)
    """The file is no measured response; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured."""

    cpu: str
    cores: int
    memory_gib: float
    system: str


@dataclass(frozen=True, slots=True)
class Versions:
    """With what it was measured."""

    recoveryd: str
    kafka: str
    java: str
    python: str
    pyspark: str
    confluent_kafka: str


@dataclass(frozen=True, slots=True)
class ResponseStep:
    """One rate, held for `seconds`. `order` counts from 1 as the steps ran, `share` is the wanted part of the unlimited
    rate, `bytes_per_s` what was copied. Quantiles of the canary are over all its records; `live_p99_ms` is the median
    of what the live application measured in each second, `lag_s` the longest lag. `broker_cores`: processor seconds per
    second. `second_p99_ms` and `second_lag_s`: each second by itself, in order.
    """

    order: int
    repeat: int
    share: float
    seconds: int
    bytes_per_s: float
    canary_p50_ms: float
    canary_p90_ms: float
    canary_p99_ms: float
    live_p99_ms: float
    lag_s: float
    broker_cores: float
    second_p99_ms: tuple[float, ...]
    second_lag_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Response:
    """A whole measurement. `seed` made the order of the steps; the SLOs were fixed before it. `target_compression`:
    Kafka's `compression.type` of the topics that were copied to, `producer` where the broker leaves batches as they
    are.
    """

    format: str
    note: str
    measured_at: str
    machine: Machine
    versions: Versions
    seed: int
    live_records_per_s: float
    target_compression: str
    slo_p99_ms: float
    slo_lag_s: float
    unlimited_bytes_per_s: float
    steps: tuple[ResponseStep, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares that were measured, each once, from none to all."""
        return tuple(sorted({step.share for step in self.steps}))

    def at(self, share: float) -> tuple[ResponseStep, ...]:
        """All repeats of one share."""
        return tuple(step for step in self.steps if step.share == share)


def packaged_response() -> Response | None:
    """The measurement that comes with recoveryd; None where none was made yet."""
    found = files("recoveryd.simulation").joinpath(FILE)
    return parse_response(found.read_text(encoding="utf-8")) if found.is_file() else None


def read_response(path: Path) -> Response:
    """Raises `BadResponse` for what is no such file, OSError when it cannot be read."""
    with path.open("rb") as file:
        raw = file.read(_BYTES_MOST + 1)
    if len(raw) > _BYTES_MOST:
        raise BadResponse("is larger than 4 MiB")
    try:
        return parse_response(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadResponse("is not UTF-8") from None


def parse_response(text: str) -> Response:
    """Raises `BadResponse`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadResponse(f"is not JSON: {error}") from None
    if isinstance(document, dict) and document.get("format") != FORMAT:
        raise BadResponse(f"format is {document.get('format')!r}, not {FORMAT!r}")
    response: Response = _value(Response, document, "")
    _check(response)
    return response


def response_text(response: Response) -> str:
    """What `parse_response` reads again: one line per step."""
    head = dataclasses.asdict(response)
    steps = ",\n".join("  " + json.dumps(step) for step in head.pop("steps"))
    return json.dumps(head, indent=1).removesuffix("\n}") + f',\n "steps": [\n{steps}\n ]\n}}\n'


def _value(kind: Any, found: Any, place: str) -> Any:
    """`found` as `kind`: a dataclass, a tuple, a text, or a finite number of 0 or more."""
    if dataclasses.is_dataclass(kind):
        return _record(kind, found, place)
    if get_origin(kind) is tuple:
        if not isinstance(found, list):
            raise BadResponse(f"{place} must be a list")
        return tuple(_value(get_args(kind)[0], item, f"{place}[{at}]") for at, item in enumerate(found))
    if kind is str:
        if not isinstance(found, str):
            raise BadResponse(f"{place} must be a text")
        return found
    if isinstance(found, bool) or not isinstance(found, int if kind is int else int | float):
        raise BadResponse(f"{place} must be a {'whole number' if kind is int else 'number'}")
    if not math.isfinite(found) or found < 0:
        raise BadResponse(f"{place} must be a finite number of 0 or more, not {found}")
    return kind(found)


def _record(kind: Any, found: Any, place: str) -> Any:
    if not isinstance(found, Mapping):
        raise BadResponse(f"{place or 'it'} must be an object")
    kinds, dot = get_type_hints(kind), f"{place}." if place else ""
    if unknown := [name for name in found if name not in kinds]:
        raise BadResponse(f"{dot}{unknown[0]} is not known; known are {', '.join(kinds)}")
    if missing := [name for name in kinds if name not in found]:
        raise BadResponse(f"{dot}{missing[0]} is missing")
    return kind(**{name: _value(inner, found[name], f"{dot}{name}") for name, inner in kinds.items()})


def _check(response: Response) -> None:
    """What types do not say."""
    if not 1 <= len(response.steps) <= _STEPS_MOST:
        raise BadResponse(f"steps are {len(response.steps)}, not 1 to {_STEPS_MOST}")
    for name, least in (("slo_p99_ms", 0), ("slo_lag_s", 1), ("unlimited_bytes_per_s", 0), ("live_records_per_s", 0)):
        if getattr(response, name) <= least:
            raise BadResponse(f"{name} must be above {least}")
    for at, step in enumerate(response.steps):
        if step.share > 1:
            raise BadResponse(f"steps[{at}].share must be between 0 and 1, not {step.share}")
        for name in ("second_p99_ms", "second_lag_s"):
            if not _SECONDS_LEAST <= len(getattr(step, name)) <= _SECONDS_MOST:
                raise BadResponse(f"steps[{at}].{name} must have {_SECONDS_LEAST} to {_SECONDS_MOST} seconds")
        if not step.canary_p50_ms <= step.canary_p90_ms <= step.canary_p99_ms:
            raise BadResponse(f"steps[{at}]: its quantiles must not fall from p50 to p99")
    shares = response.shares
    if len(shares) < _SHARES_LEAST or shares[0] != 0 or shares[-1] != 1:
        raise BadResponse(f"steps must have shares 0 and 1, and at least {_SHARES_LEAST} shares in all")

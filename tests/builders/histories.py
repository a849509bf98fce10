"""Recorded histories: the events that daemons got in real runs, and what they decided then. `python -m
tests.builders.histories` records them again on a broker of its own, only those that are named, if any; after an
intended change, `--decide` only writes again what this release decides on the recorded events.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from recoveryd.capabilities import make_decider
from recoveryd.kernel.decision import Decision
from recoveryd.runtime.history import Taken, take_again
from recoveryd.runtime.tagged import to_tagged
from tests.builders.core import STATUS

FOLDER = Path(__file__).parents[1] / "golden" / "histories"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def decided(name: str) -> list[dict[str, Any]]:
    """What this release decides on a history: reason, records and effects of each decision, and the state at
    the end.
    """
    with (FOLDER / f"{name}.jsonl").open(encoding="utf-8") as lines:
        taken = list(take_again(lines, make_decider))
    return [*(_shown(one) for one in taken), {"known": _known(taken[-1].decision)}]


def expected(name: str) -> list[dict[str, Any]]:
    with (FOLDER / f"{name}.decided").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_expected(name: str) -> None:
    lines = [json.dumps(row, separators=(",", ":")) for row in decided(name)]
    (FOLDER / f"{name}.decided").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _shown(taken: Taken) -> dict[str, Any]:
    decision = taken.decision
    shown: dict[str, Any] = {
        "event": "restored" if taken.event is None else type(taken.event).__name__,
        "why": decision.reason,
        "states": [f"{noun.id} {noun.state.value} {noun.version}" for noun in decision.changed],  # type: ignore[attr-defined]
        "told": [f"{notice.subject} {notice.type}" for notice in decision.notices],
        "answers": [f"{answer.subject} {answer.kind} {answer.code}" for answer in decision.answers],
        "directives": [
            f"{d.recovery} {d.attempt} {d.sequence} {d.wanted} {d.max_bytes_per_s}" for d in decision.directives
        ],
        "effects": [_set(to_tagged(effect)) for effect in decision.effects],
    }
    return {name: value for name, value in shown.items() if value}


def _known(last: Decision) -> dict[str, Any]:
    return {noun: _set(json.loads(STATUS.encode(found)[1])) for noun, found in sorted(_nouns(last))}


def _set(value: Any) -> Any:
    """The value without unset fields, so that a new option which the history does not use changes nothing."""
    if isinstance(value, dict):
        return {name: _set(inner) for name, inner in value.items() if inner is not None}
    return [_set(inner) for inner in value] if isinstance(value, list) else value


def _nouns(last: Decision) -> Iterator[tuple[str, Any]]:
    from recoveryd.recovery.params import Params
    from tests.builders.deciding import make_capabilities

    for capability in make_capabilities(Params()):
        yield from capability.known(last.state).items()


def record(wanted: Collection[str]) -> None:
    """Runs on a real broker, with real processes; empty = all."""
    from recoveryd_sandbox.broker import Broker
    from tests.builders import history_runs

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        for name, run in history_runs.RUNS.items():
            if wanted and name not in wanted:
                continue
            work = Path(folder) / name
            work.mkdir()
            file = work / "events.jsonl"
            run(broker.bootstrap, work, file)
            text = file.read_text(encoding="utf-8").replace(str(work), "/var/lib/recoveryd")
            (FOLDER / f"{name}.jsonl").write_text(text, encoding="utf-8")
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    if "--decide" not in sys.argv:
        record(sys.argv[1:])
    for each in names():
        write_expected(each)
        print(each, len(decided(each)), "decisions")

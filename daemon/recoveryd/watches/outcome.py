"""The last step of a watch: into a terminal state, which is told with the reason and its evidence."""

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import State
from recoveryd.watches.draft import WatchDraft
from recoveryd.watches.model import Watch


def end(draft: WatchDraft, watch: Watch, state: State, why: str, code: Code | None = None) -> None:
    """Into a terminal state, with `watch.stop` as the reason."""
    assert watch.stop is not None
    draft.put_watch(changed(watch, draft.now_ms, state=state, why=why, error_code=code.value if code else None))
    told: dict[str, object] = {
        "from": watch.state.value,
        "to": state.value,
        "why": why,
        "reason": watch.stop.reason.value,
        "mode": watch.stop.mode,
        "evidence": watch.stop.evidence,
    }
    draft.notice(f"watch_{state.value}", watch.id, told | ({"code": code.value} if code else {}))
    draft.reason = why

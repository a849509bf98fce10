"""Who hears of transitions: the webhooks of the config, and what of a decision they are told."""

from collections.abc import Callable, Iterator

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.adapters.http.transition_posts import Route
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.metrics import Sample
from recoveryd.metrics.definitions import WEBHOOK_TRANSITIONS
from recoveryd.settings import Settings
from recoveryd.wire.status_topic import StatusTopic
from recoveryd.wire.transitions import Transition, transition_of, verb_of


def transition_routes(settings: Settings) -> dict[str, Route]:
    """Of the webhooks that hear of transitions."""
    heard = {name: webhook.transitions for name, webhook in settings.values.webhooks.items()}
    return {
        name: Route(wanted.form, frozenset(wanted.verbs), frozenset(state.value for state in wanted.states))
        for name, wanted in heard.items()
        if wanted is not None
    }


def count_transition(metrics: Metrics) -> Callable[[str, str], None]:
    return lambda webhook, outcome: metrics.add([Sample(WEBHOOK_TRANSITIONS, (webhook, outcome), 1)])


def transitions_in(decision: Decision, status: StatusTopic, now_ms: int) -> Iterator[Transition]:
    """What moved from one state to another by this decision."""
    changed = {noun.id: noun for noun in decision.changed}
    for notice in decision.notices:
        noun = changed.get(notice.subject)
        if noun is not None and "from" in notice.data:
            found = transition_of(notice, verb_of(status.document(noun)), now_ms)
            if found is not None:
                yield found

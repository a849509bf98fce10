"""Where verbs and kinds stand as words, because the capabilities would be too much to load there, they are all
there.
"""

import pytest

from recoveryd.capabilities import KINDS, make_capabilities
from recoveryd.cli.send import again
from recoveryd.cli.verbs import logs, steer
from recoveryd.recovery.kinds import Kind
from recoveryd.settings.webhooks import VERBS
from recoveryd.wire import transitions


def test_webhooks_may_name_every_verb_that_begins_something_with_a_state() -> None:
    beginning = {verb.name for c in make_capabilities() for verb in c.verbs if verb.is_beginning and verb.is_new}
    assert beginning == set(VERBS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_verb_of_a_kind_is_the_same_wherever_it_is_told(kind: Kind) -> None:
    assert transitions._VERBS.get(kind.name, kind.name) == kind.verb
    assert again._VERBS[kind.name] == kind.verb


def test_the_command_line_names_every_kind_that_runs_attempts_and_no_other() -> None:
    names = {kind.name for kind in KINDS}
    assert (set(again._VERBS), set(steer._COPIES), set(logs._WITH_ATTEMPTS)) == (names, names, names)
    assert set(transitions._VERBS) <= names

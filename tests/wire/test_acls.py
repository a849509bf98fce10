"""The table of ACLs and the page that is made from it."""

from recoveryd.wire.acls import Acl, Resource, every_need
from recoveryd.wire.topics import TopicNames
from tools.acls_page import FILE, render


def test_the_page_is_what_the_table_says() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "run python -m tools.acls_page --write"


def test_every_own_topic_is_in_the_table() -> None:
    named = {acl.name for acl in every_need(TopicNames("p.")) if acl.resource is Resource.TOPIC}
    assert set(TopicNames("p.").all) <= named


def test_no_right_is_written_twice_for_one_role() -> None:
    def places(acl: Acl) -> list[tuple[str, ...]]:
        return [(role.value, acl.name, operation) for role in acl.roles for operation in acl.operations]

    topics = (acl for acl in every_need(TopicNames()) if acl.resource is Resource.TOPIC)
    found = [place for acl in topics for place in places(acl)]
    assert len(found) == len(set(found))

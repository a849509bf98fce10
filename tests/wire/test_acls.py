"""The table of ACLs."""

from recoveryd.wire.acls import _TOPICS_OF_UNITS, Acl, Resource, every_need
from recoveryd.wire.topics import TopicNames


def test_every_own_topic_is_in_the_table() -> None:
    named = {acl.name for acl in every_need(TopicNames("p.")) if acl.resource is Resource.TOPIC}
    assert set(TopicNames("p.").all) <= named


def test_no_right_is_written_twice_for_one_role_and_command() -> None:
    def places(acl: Acl) -> list[tuple[str, ...]]:
        return [(role.value, acl.name, operation, acl.when) for role in acl.roles for operation in acl.operations]

    topics = (acl for acl in every_need(TopicNames()) if acl.resource is Resource.TOPIC)
    found = [place for acl in topics for place in places(acl)]
    assert len(found) == len(set(found))


def test_topics_that_a_plan_looks_at_have_the_right_to_their_configs() -> None:
    granted = {(acl.name, operation) for acl in every_need(TopicNames()) for operation in acl.operations}
    for name in ("savepoint.NAME.TOPIC", "an error topic", *_TOPICS_OF_UNITS):
        assert (name, "DescribeConfigs") in granted

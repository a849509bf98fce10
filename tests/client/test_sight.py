"""When a client that only listens is taken for blind."""

from confluent_kafka import KafkaError

from recoveryd.sight import BLIND_AFTER_S, SAYS_SO, ClusterSight


def test_a_client_that_hears_nothing_since_it_had_no_broker_is_blind() -> None:
    sight = ClusterSight()
    sight.note(KafkaError(SAYS_SO), 100.0)
    assert not sight.is_lost(100.0 + BLIND_AFTER_S - 0.1)
    assert sight.is_lost(100.0 + BLIND_AFTER_S)


def test_what_it_had_fetched_before_is_no_sign_that_it_sees_again() -> None:
    sight = ClusterSight()
    sight.note(KafkaError(SAYS_SO), 100.0)
    sight.note(None, 105.0)
    assert not sight.is_lost(105.0 + BLIND_AFTER_S - 0.1)
    assert sight.is_lost(105.0 + BLIND_AFTER_S)


def test_a_quiet_topic_or_a_lost_connection_makes_nobody_blind() -> None:
    sight = ClusterSight()
    sight.note(KafkaError(KafkaError._TRANSPORT), 100.0)
    sight.note(KafkaError(KafkaError._PARTITION_EOF), 101.0)
    assert not sight.is_lost(1e6)

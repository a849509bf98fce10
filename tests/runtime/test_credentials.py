"""The config's access to a cluster as Faust's settings."""

import ssl

import faust
import pytest
from faust.auth import SASLCredentials, SSLCredentials

from recoveryd.app.credentials import REQUEST_TIMEOUT_S, credentials_of, request_timeout_s, tuning_of
from recoveryd.settings.kafka_properties import ClientAccess, Tls, read_access

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="s3cret";'


def test_plain_text_needs_none() -> None:
    assert credentials_of(ClientAccess("127.0.0.1:9092")) is None


def test_a_login_is_passed_on_and_does_not_show_its_password() -> None:
    access = read_access(
        {
            "bootstrap.servers": "127.0.0.1:9092",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": JAAS,
        }
    )
    made = credentials_of(access)
    assert isinstance(made, SASLCredentials)
    assert (made.username, made.password, made.mechanism.value) == ("alice", "s3cret", "SCRAM-SHA-512")
    assert made.protocol.value == "SASL_SSL"
    assert isinstance(made.ssl_context, ssl.SSLContext)
    assert "s3cret" not in repr(made)


def test_encryption_alone_is_a_context() -> None:
    made = credentials_of(ClientAccess("127.0.0.1:9092", tls=Tls(check_hostname=False)))
    assert isinstance(made, SSLCredentials)
    assert made.context.check_hostname is False


def test_faust_gets_the_times_that_its_clients_take() -> None:
    access = read_access(
        {
            "bootstrap.servers": "127.0.0.1:9092",
            "metadata.max.age.ms": "60000",
            "connections.max.idle.ms": "180000",
            "request.timeout.ms": "45000",
            "client.rack": "zone-b",
        }
    )
    conf = faust.App("tuned", broker="kafka://127.0.0.1:9092", **tuning_of(access)).conf
    assert (conf.consumer_metadata_max_age_ms, conf.producer_metadata_max_age_ms) == (60_000, 60_000)
    assert (conf.consumer_connections_max_idle_ms, conf.producer_connections_max_idle_ms) == (180_000, 180_000)
    assert request_timeout_s(access) == 45.0


def test_what_is_not_tuned_is_left_to_faust() -> None:
    access = ClientAccess("127.0.0.1:9092")
    assert (tuning_of(access), request_timeout_s(access)) == ({}, REQUEST_TIMEOUT_S)


@pytest.mark.parametrize("role", ["consumer", "producer"])
def test_connections_that_librdkafka_never_closes_for_being_idle_stay_with_faust_too(role: str) -> None:
    access = ClientAccess("127.0.0.1:9092", tuning={"connections.max.idle.ms": "0"})
    assert tuning_of(access)[f"{role}_connections_max_idle_ms"] > 20 * 86_400_000

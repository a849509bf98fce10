"""The config's access to a cluster as Faust's settings."""

import ssl
from dataclasses import replace
from pathlib import Path

import faust
import pytest
from aiokafka.client import AIOKafkaClient
from faust.auth import SASLCredentials, SSLCredentials

from recoveryd.app.credentials import REQUEST_TIMEOUT_S, credentials_of, request_timeout_s, take_login, tuning_of
from recoveryd.settings.kafka_properties import ClientAccess, Tls, read_access
from recoveryd_sandbox.pki import make_certificates

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


@pytest.mark.parametrize("mechanism", [None, "PLAIN"])
async def test_an_authority_that_was_taken_away_is_not_trusted_by_connections_made_later(
    tmp_path: Path, mechanism: str | None
) -> None:
    before, after = (make_certificates(tmp_path / name).authority for name in ("before", "after"))
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(before.read_bytes())
    access = ClientAccess("127.0.0.1:9092", mechanism, "alice", "old", tls=Tls(ca_file=str(trusted)))
    made = credentials_of(access)
    context = made.context if mechanism is None else made.ssl_context
    client = AIOKafkaClient(
        security_protocol=access.protocol,
        ssl_context=context,
        sasl_plain_username=access.username,
        sasl_plain_password=access.password,
    )
    trusted.write_bytes(after.read_bytes())
    take_login(made, replace(access, password="new"), [client])
    of_after = ssl.create_default_context(cafile=str(after)).get_ca_certs()
    renewed = made.context if mechanism is None else made.ssl_context
    assert client._ssl_context is renewed
    assert renewed.get_ca_certs() == of_after
    if mechanism is not None:
        assert (client._sasl_plain_password, made.password) == ("new", "new")

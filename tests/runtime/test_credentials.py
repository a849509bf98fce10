"""The config's access to a cluster as Faust's settings."""

import ssl

from faust.auth import SASLCredentials, SSLCredentials

from recoveryd.app.credentials import credentials_of
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

"""Kafka's property names for both client libraries; a property that one of them could not honour is refused."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from recoveryd.settings.jaas import PropertyProblem
from recoveryd.settings.kafka_properties import (
    PROPERTIES,
    ClientAccess,
    Tls,
    make_ssl_context,
    read_access,
    to_librdkafka,
)

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
SASL = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": PLAIN,
}


def test_an_address_is_enough() -> None:
    properties = {"bootstrap.servers": "a:1,[::1]:2"}
    assert read_access(properties) == ClientAccess("a:1,[::1]:2")
    assert to_librdkafka(properties) == {"bootstrap.servers": "a:1,[::1]:2", "security.protocol": "plaintext"}


def test_user_and_password_over_tls() -> None:
    access = read_access(SASL | {"ssl.truststore.location": "ca.pem", "request.timeout.ms": "7000"})
    assert access == ClientAccess("a:1", "PLAIN", "u", "p", Tls(ca_file="ca.pem"), {"request.timeout.ms": "7000"})
    assert access.protocol == "SASL_SSL"
    assert "'p'" not in repr(access)
    assert to_librdkafka(SASL | {"ssl.truststore.location": "ca.pem", "request.timeout.ms": "7000"}) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "https",
        "socket.timeout.ms": "7000",
    }


@pytest.mark.parametrize(
    ("jaas", "password"),
    [
        (PLAIN, "p"),
        (PLAIN.replace('"p"', r'"p\"q;\\ ="'), 'p"q;\\ ='),
        (PLAIN.replace('"p"', "'it is'"), "it is"),
        (PLAIN.removesuffix(";"), "p"),
        (PLAIN.replace(" required", "  required\n"), "p"),
    ],
)
def test_a_login_line_in_its_forms(jaas: str, password: str) -> None:
    assert read_access(SASL | {"sasl.jaas.config": jaas}).password == password


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "scram-sha-512"])
def test_scram(mechanism: str) -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'
    access = read_access(SASL | {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas})
    assert (access.mechanism, access.username) == (mechanism.upper(), "u")


@pytest.mark.parametrize(
    ("change", "key", "message", "hint"),
    [
        ({"bootstrap.server": "a:1"}, "bootstrap.server", "is not a client property", "Did you mean bootstrap.servers?"),
        ({"request.timeout.ms": "30s"}, "request.timeout.ms", "'30s' is not a whole number", ""),
        ({"send.buffer.bytes": "-1"}, "send.buffer.bytes", "'-1' is not a whole number", ""),
        ({"client.id": "x"}, "client.id", "is not a client property", ""),
        ({"sasl.username": "x"}, "sasl.username", "is not a client property", ""),
        ({"bootstrap.servers": ""}, "bootstrap.servers", "is missing", ""),
        ({"bootstrap.servers": "a"}, "bootstrap.servers", "'a' is not HOST:PORT", ""),
        ({"bootstrap.servers": "a:99999"}, "bootstrap.servers", "is not HOST:PORT", ""),
        ({"bootstrap.servers": "a:1,"}, "bootstrap.servers", "'' is not HOST:PORT", ""),
        ({"security.protocol": "TLS"}, "security.protocol", "'TLS' is not one of", ""),
        ({"security.protocol": "SSL"}, "sasl.mechanism", "has no effect with security.protocol SSL", "Set security.protocol to SASL_SSL."),
        ({"security.protocol": "SASL_PLAINTEXT", "ssl.key.password": "x"}, "ssl.key.password", "has no effect", "SASL_SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism", "GSSAPI is not one of PLAIN", ""),
        ({"sasl.oauthbearer.scope": "x"}, "sasl.oauthbearer.scope", "has no effect with sasl.mechanism PLAIN", "OAUTHBEARER"),
        ({"security.protocol": "SSL", "sasl.oauthbearer.scope": "x"}, "sasl.mechanism", "has no effect with security.protocol SSL", ""),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "sasl.jaas.config", "names org.apache.kafka.common.security.plain", "ScramLoginModule"),
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config", "not of the form", "PlainLoginModule required"),
        ({"sasl.jaas.config": PLAIN.replace('password="p"', "")}, "sasl.jaas.config", "has no password", ""),
        ({"ssl.truststore.location": "ca.jks"}, "ssl.truststore.type", "can only be read by Java", "set ssl.truststore.type to PEM"),
        ({"ssl.keystore.location": "k.p12", "ssl.keystore.type": "PKCS12"}, "ssl.keystore.type", "PKCS12 stores", ""),
        ({"ssl.truststore.location": "a.pem", "ssl.truststore.certificates": "x"}, "ssl.truststore.certificates", "given together", ""),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain", "go together", ""),
        ({"ssl.endpoint.identification.algorithm": "none"}, "ssl.endpoint.identification.algorithm", "neither https nor empty", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused(change: dict[str, str], key: str, message: str, hint: str) -> None:
    with pytest.raises(PropertyProblem) as caught:
        to_librdkafka(SASL | change)
    assert caught.value.key == key
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_no_problem_tells_a_password() -> None:
    jaas = PLAIN.replace("required", "maybe").replace('"p"', '"geheim"')
    with pytest.raises(PropertyProblem) as caught:
        read_access(SASL | {"sasl.jaas.config": jaas})
    assert "geheim" not in caught.value.message + caught.value.hint + str(caught.value)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh key and self-signed certificate in one PEM file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl program to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run(
        [*command, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True
    )
    (folder / "both.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    return folder


def access_properties(pem: Path, *, inline: bool) -> dict[str, str]:
    if not inline:
        return {"ssl.truststore.location": str(pem / "cert.pem"), "ssl.keystore.location": str(pem / "both.pem")}
    return {
        "ssl.truststore.certificates": (pem / "cert.pem").read_text(),
        "ssl.keystore.certificate.chain": (pem / "cert.pem").read_text(),
        "ssl.keystore.key": (pem / "key.pem").read_text(),
    }


@pytest.mark.parametrize("inline", [False, True])
def test_librdkafka_takes_every_property_we_make_of_them(pem: Path, *, inline: bool) -> None:
    tuning = dict.fromkeys((n for n in PROPERTIES if n.endswith((".ms", ".bytes"))), "5000")
    translated = to_librdkafka(
        SASL
        | access_properties(pem, inline=inline)
        | tuning
        | {"client.dns.lookup": "use_all_dns_ips", "client.rack": "zone-b"}
    )
    assert len(translated) >= len(tuning) + 9
    AdminClient(translated)  # refuses unknown names and certificates that it cannot read


@pytest.mark.parametrize("inline", [False, True])
def test_the_same_properties_make_a_context_for_aiokafka(pem: Path, *, inline: bool) -> None:
    access = read_access(SASL | access_properties(pem, inline=inline))
    assert access.tls is not None
    context = make_ssl_context(access.tls)
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert len(context.get_ca_certs()) == 1


def test_the_check_of_the_host_name_can_be_switched_off_but_not_that_of_the_certificate() -> None:
    tls = read_access(SASL | {"ssl.endpoint.identification.algorithm": ""}).tls
    assert tls is not None
    context = make_ssl_context(tls)
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)

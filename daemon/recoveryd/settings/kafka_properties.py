"""Kafka's Java property names, used under `clusters:` of the config, translated for the two client libraries.

Users write the names of Kafka's documentation; librdkafka names some things differently, and aiokafka (under Faust)
takes arguments and an `ssl.SSLContext`. A property about addresses, encryption or login that cannot be honoured in both
is refused, never dropped: a connection less secure than its config says would be the worst outcome. Of the tuning,
librdkafka takes all and aiokafka what it has a parameter for. Values are plain texts here; `secrets` resolves those
that are stored elsewhere.
"""

import os
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from recoveryd.settings import jaas, oauth_properties
from recoveryd.settings.jaas import PropertyProblem, read_jaas
from recoveryd.settings.oauth_properties import OAuth, oauth_for_librdkafka, read_oauth
from recoveryd.wire.spelling import did_you_mean

BOOTSTRAP: Final = "bootstrap.servers"

# Java name to librdkafka name; values are the same. `app.credentials` has those that the clients under Faust take too.
_TUNING: Final = {
    "client.dns.lookup": "client.dns.lookup",
    "client.rack": "client.rack",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
_SASL: Final = ("sasl.mechanism", jaas.KEY)
_SSL: Final = (
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
PROPERTIES: Final = (BOOTSTRAP, "security.protocol", *_SASL, *oauth_properties.PROPERTIES, *_SSL, *_TUNING)
LOCATIONS: Final = ("ssl.truststore.location", "ssl.keystore.location", oauth_properties.CA_FILE)
SECRET_PROPERTIES: Final = (
    frozenset({"sasl.jaas.config", "ssl.keystore.key", "ssl.key.password"}) | oauth_properties.SECRET_PROPERTIES
)

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class Tls:
    """Files or PEM texts; at most one of each pair is set. None of `ca_*` = the system's trust store."""

    ca_file: str | None = None
    ca_pem: str | None = None
    cert_file: str | None = None  # holds chain and key
    cert_pem: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """How to reach a cluster, independent of any library."""

    bootstrap: str
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    tuning: Mapping[str, str] = field(default_factory=dict)  # by Java name
    oauth: OAuth | None = None  # instead of user and password

    @property
    def protocol(self) -> str:
        secured = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{secured}" if self.mechanism else secured


def read_access(properties: Mapping[str, str]) -> ClientAccess:
    """Check and interpret Java client properties. Raises `PropertyProblem` naming the first that cannot be honoured."""
    check_names(properties)
    bootstrap = properties.get(BOOTSTRAP, "").strip()
    if not bootstrap:
        raise PropertyProblem(BOOTSTRAP, "is missing", "Name at least one broker as HOST:PORT.")
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise PropertyProblem(BOOTSTRAP, f"{address.strip()!r} is not HOST:PORT", "Write host:9092,host2:9092.")
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise PropertyProblem("security.protocol", f"{protocol!r} is not one of {', '.join(_PROTOCOLS)}")
    _refuse_unused(properties, protocol)
    tuning = {name: properties[name] for name in _TUNING if name in properties}
    _check_numbers(tuning)
    mechanism = _read_mechanism(properties) if protocol.startswith("SASL") else None
    by_token = mechanism == oauth_properties.MECHANISM
    username, password = _read_login(properties, mechanism) if mechanism and not by_token else (None, None)
    return ClientAccess(
        bootstrap=bootstrap,
        mechanism=mechanism,
        username=username,
        password=password,
        oauth=read_oauth(properties) if by_token else None,
        tls=_read_tls(properties) if protocol.endswith("SSL") else None,
        tuning=tuning,
    )


def check_names(properties: Iterable[str]) -> None:
    """Raises `PropertyProblem` for the first unknown name, with the nearest known one."""
    for name in properties:
        if name not in PROPERTIES:
            hint = did_you_mean(name, PROPERTIES, f"Taken are {', '.join(PROPERTIES)}.")
            raise PropertyProblem(name, "is not a client property that recoveryd passes on", hint, unknown=True)


def _check_numbers(tuning: Mapping[str, str]) -> None:
    for name, value in tuning.items():
        if name.endswith((".ms", ".bytes")) and not (value.isascii() and value.isdigit()):
            raise PropertyProblem(name, f"{value!r} is not a whole number")


def to_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties for librdkafka. Raises `PropertyProblem`."""
    access = read_access(properties)
    translated = {BOOTSTRAP: access.bootstrap, "security.protocol": access.protocol.lower()}
    if access.mechanism:
        translated["sasl.mechanism"] = access.mechanism
        if access.oauth:
            translated |= oauth_for_librdkafka(access.oauth)
        else:
            translated |= {"sasl.username": access.username or "", "sasl.password": access.password or ""}
    if access.tls:
        tls = access.tls
        pairs = {
            "ssl.ca.location": tls.ca_file,
            "ssl.ca.pem": tls.ca_pem,
            "ssl.certificate.location": tls.cert_file,
            "ssl.key.location": tls.cert_file,
            "ssl.certificate.pem": tls.cert_pem,
            "ssl.key.pem": tls.key_pem,
            "ssl.key.password": tls.key_password,
            "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none",
        }
        translated |= {name: value for name, value in pairs.items() if value is not None}
    return translated | {_TUNING[name]: value for name, value in access.tuning.items()}


def make_ssl_context(tls: Tls) -> ssl.SSLContext:
    """The context for aiokafka. Raises OSError or `ssl.SSLError` when a file is missing or is not PEM."""
    context = ssl.create_default_context(cafile=tls.ca_file, cadata=tls.ca_pem)
    context.check_hostname = tls.check_hostname
    load_own_certificate(context, tls)
    return context


def load_own_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """The client certificate, if there is one. Raises as `make_ssl_context`."""
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, password=tls.key_password)
    elif tls.cert_pem is not None:
        # Python loads a client certificate from a file only.
        descriptor, name = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{tls.cert_pem}\n{tls.key_pem or ''}\n")
            context.load_cert_chain(name, password=tls.key_password)
        finally:
            Path(name).unlink()


def _refuse_unused(properties: Mapping[str, str], protocol: str) -> None:
    for group, wanted in ((_SSL, "SSL"), ((*_SASL, *oauth_properties.PROPERTIES), "SASL")):
        used = next((name for name in group if name in properties), None)
        if used is not None and wanted not in protocol.split("_"):
            fitting = (
                "SASL_SSL" if protocol != "PLAINTEXT" else f"{wanted} or SASL_SSL" if wanted == "SSL" else "SASL_SSL"
            )
            raise PropertyProblem(
                used, f"has no effect with security.protocol {protocol}", f"Set security.protocol to {fitting}."
            )


def _read_mechanism(properties: Mapping[str, str]) -> str:
    mechanism = properties.get("sasl.mechanism", "").upper()
    allowed = (*_LOGIN_MODULES, oauth_properties.MECHANISM)
    if mechanism not in allowed:
        said = f"{mechanism or 'nothing'} is not one of {', '.join(allowed)}"
        raise PropertyProblem("sasl.mechanism", said, f"Write one of {', '.join(allowed)}.")
    used = next((name for name in oauth_properties.PROPERTIES if name in properties), None)
    if used is not None and mechanism != oauth_properties.MECHANISM:
        raise PropertyProblem(used, f"has no effect with sasl.mechanism {mechanism}", "Set it to OAUTHBEARER.")
    return mechanism


def _read_login(properties: Mapping[str, str], mechanism: str) -> tuple[str, str]:
    example = 'username="..." password="..."'
    options = read_jaas(properties.get(jaas.KEY, ""), _LOGIN_MODULES[mechanism], mechanism, example)
    for name in ("username", "password"):
        if not options.get(name):
            raise PropertyProblem(jaas.KEY, f"has no {name}")
    return options["username"], options["password"]


def _read_tls(properties: Mapping[str, str]) -> Tls:
    _check_pem_store(properties, "ssl.truststore")
    _check_pem_store(properties, "ssl.keystore")
    chain, key = properties.get("ssl.keystore.certificate.chain"), properties.get("ssl.keystore.key")
    if (chain is None) != (key is None):
        missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
        raise PropertyProblem(missing, "is missing; certificate chain and key go together")
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in {"https", ""}:
        raise PropertyProblem("ssl.endpoint.identification.algorithm", f"{algorithm!r} is neither https nor empty")
    return Tls(
        ca_file=properties.get("ssl.truststore.location"),
        ca_pem=properties.get("ssl.truststore.certificates"),
        cert_file=properties.get("ssl.keystore.location"),
        cert_pem=chain,
        key_pem=key,
        key_password=properties.get("ssl.key.password"),
        check_hostname=algorithm == "https",
    )


def _check_pem_store(properties: Mapping[str, str], store: str) -> None:
    location, kind = properties.get(f"{store}.location"), properties.get(f"{store}.type")
    inline = f"{store}.certificates" if store == "ssl.truststore" else f"{store}.certificate.chain"
    if location is not None and inline in properties:
        raise PropertyProblem(inline, f"is given together with {store}.location", "Keep one of the two.")
    looks_like_pem = location is None or location.lower().endswith((".pem", ".crt", ".cer"))
    if (kind or ("PEM" if looks_like_pem else "JKS")).upper() != "PEM":
        hint = f"Convert it (keytool -exportcert -rfc, openssl pkcs12) and set {store}.type to PEM."
        raise PropertyProblem(f"{store}.type", f"{kind or 'JKS'} stores can only be read by Java", hint)

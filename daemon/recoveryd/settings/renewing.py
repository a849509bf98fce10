"""Secrets of the config, read again while the daemon runs: which files hold them, and what they say now.

Where a secret is written in the config itself, or comes from a variable, it is of the start. What is read again has to
be whole: an empty file, or one that was only written in part, is refused, so that the secret of before stays.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from recoveryd.errors import ConfigProblem
from recoveryd.settings.jaas import PropertyProblem
from recoveryd.settings.kafka_properties import (
    LOCATIONS,
    ClientAccess,
    Tls,
    make_ssl_context,
    read_access,
    to_librdkafka,
)
from recoveryd.settings.secrets import SecretProblem, files_in, resolve
from recoveryd.settings.sources import Key, located
from recoveryd.settings.view import Settings

_BEGIN, _END = b"-----BEGIN ", b"-----END "


def cluster_files(settings: Settings, name: str) -> tuple[Path, ...]:
    """Files whose text is a secret or a certificate of this cluster."""
    written = settings.written_clusters[name]
    named = _named(settings, {("clusters", name, key): value for key, value in written.items()})
    named += [Path(settings.values.clusters[name][key]) for key in LOCATIONS if key in written]
    return tuple(dict.fromkeys(named))


def webhook_files(settings: Settings, name: str) -> tuple[Path, ...]:
    webhook = settings.values.webhooks[name]
    given: dict[Key, Any] = {(webhook.key_option,): webhook.written_key, ("url",): webhook.url}
    return tuple(dict.fromkeys(_named(settings, {("webhooks", name, *key): value for key, value in given.items()})))


def control_files(settings: Settings, unit: str) -> tuple[Path, ...]:
    control = settings.values.units[unit].control
    given: dict[Key, Any] = {("environment", name): value for name, value in control.environment.items()}
    given |= {("password",): control.password, ("ca_file",): control.ca_file and {"file": control.ca_file}}
    return tuple(_named(settings, {("units", unit, "control", *key): value for key, value in given.items()}))


def _named(settings: Settings, written: Mapping[Key, Any]) -> list[Path]:
    """The files that these values refer to."""
    return [located(key, settings.origins)(place) for key, value in written.items() for place in files_in(value)]


def cluster_again(settings: Settings, name: str) -> tuple[ClientAccess, dict[str, str]]:
    """How to reach a cluster by what its files hold now, and the same for librdkafka. Raises `ConfigProblem`."""
    try:
        texts = {
            key: resolve(key, value, settings.environment, located(("clusters", name, key), settings.origins)).text
            for key, value in settings.written_clusters[name].items()
        }
        access = read_access(texts)
        if access.tls is not None:
            _check_tls(access.tls)
        if access.oauth is not None and access.oauth.ca_file is not None:
            _check_tls(Tls(ca_file=access.oauth.ca_file))
        return access, to_librdkafka(texts)
    except (SecretProblem, PropertyProblem) as problem:
        raise ConfigProblem(f"clusters.{name} is not usable: {problem}.", key=f"clusters.{name}") from None


def fingerprint(properties: Mapping[str, str], files: Iterable[Path]) -> str:
    """The same as long as neither a property nor what a file holds has changed. Files that cannot be read count as
    empty.
    """
    digest = hashlib.sha256(repr(sorted(properties.items())).encode())
    for file in files:
        try:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        except OSError:
            digest.update(b"-")
    return digest.hexdigest()


def _check_tls(tls: Tls) -> None:
    """Raises `SecretProblem` where a file holds no certificates, a part of one, or a key that is not of its chain."""
    for place in (tls.ca_file, tls.cert_file):
        if place is not None:
            check_pem_file(Path(place))
    try:
        make_ssl_context(tls)
    except OSError as error:  # also of ssl
        why = error.strerror or type(error).__name__
        raise SecretProblem(f"its certificates and key do not go together: {why}") from None


def check_pem_file(path: Path) -> None:
    """Raises `SecretProblem` where the file is empty, or ends in the middle of a certificate or key."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SecretProblem(f"the file {path} cannot be read: {error.strerror}") from None
    if not raw.strip():
        raise SecretProblem(f"the file {path} is empty")
    if raw.count(_BEGIN) != raw.count(_END) or _BEGIN not in raw:
        raise SecretProblem(f"the file {path} is not PEM, or only a part of it")

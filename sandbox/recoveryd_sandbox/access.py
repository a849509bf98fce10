"""Who may connect to a secured sandbox cluster, and how: certificates, one super user, one user for recoveryd,
passwords in files.

Passwords are made at random on the first start. They are never on a command line: users are created through the nodes'
own listener.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from recoveryd_sandbox.pki import Certificates, make_certificates

ADMIN = "admin"  # the super user
RECOVERYD = "recoveryd"
MECHANISM = "SCRAM-SHA-512"
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Credentials:
    """The certificates and passwords in `folder`."""

    folder: Path
    certificates: Certificates

    def password(self, user: str) -> str:
        return self._password_file(user).read_text(encoding="utf-8").strip()

    def has(self, user: str) -> bool:
        return self._password_file(user).exists()

    def make_password(self, user: str) -> str:
        """The user's password, created when there is none yet."""
        file = self._password_file(user)
        if not file.exists():
            draft = file.with_suffix(f".{os.getpid()}")
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_urlsafe(24) + "\n", encoding="utf-8")
            draft.replace(file)
        return self.password(user)

    def as_user(self, user: str) -> dict[str, str]:
        """Properties, in librdkafka's names, of a client that logs in as `user`."""
        return {
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.certificates.authority),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self.password(user),
        }

    def as_node(self) -> dict[str, str]:
        """Properties, in librdkafka's names, of a client that is one of the nodes; for the inner listener only."""
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": str(self.certificates.node),
            "ssl.key.location": str(self.certificates.node),
        }

    def java_properties(self, user: str, bootstrap: str) -> dict[str, str]:
        """Kafka's own property names, as under `clusters:` of recoveryd's config; the password stays in its file."""
        login = f'{_LOGIN_MODULE} required username="{user}" password="${{file:{self._password_file(user)}}}";'
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
        }

    def _password_file(self, user: str) -> Path:
        return self.folder / f"{user}.password"


def make_credentials(folder: Path) -> Credentials:
    """The credentials of `folder`, with both users' passwords, created when they do not exist yet. Raises
    `SandboxError`.
    """
    found = Credentials(folder, make_certificates(folder))
    for user in (ADMIN, RECOVERYD):
        found.make_password(user)
    return found


def write_client_file(path: Path, properties: Mapping[str, str]) -> Path:
    """A config that `recoveryd run --config` and `recoveryctl --config` can use as it is."""
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(yaml.safe_dump({"clusters": {"main": dict(properties)}}, sort_keys=False), encoding="utf-8")
    draft.replace(path)
    return path

"""What files of secrets say now, and which of it is refused."""

from pathlib import Path

import pytest

from recoveryd.errors import ConfigProblem
from recoveryd.settings import Settings
from recoveryd.settings.renewing import cluster_again, cluster_files, control_files, webhook_files
from recoveryd_sandbox.pki import Certificates, make_certificates
from tests.settings.test_settings import loaded

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def by_password(folder: Path) -> Settings:
    password = folder / "password"
    password.write_text("first\n")
    login = f'{SCRAM} username="alice" password="${{file:{password}}}";'
    return loaded(
        f"clusters: {{main: {{bootstrap.servers: 'a:1', security.protocol: SASL_PLAINTEXT, "
        f"sasl.mechanism: SCRAM-SHA-512, sasl.jaas.config: '{login}'}}}}"
    )


def by_certificate(folder: Path, certificates: Certificates) -> Settings:
    for name, file in (("authority.pem", certificates.authority), ("own.pem", certificates.node)):
        (folder / name).write_bytes(file.read_bytes())
    return loaded(
        f"clusters: {{main: {{bootstrap.servers: 'a:1', security.protocol: SSL, ssl.truststore.type: PEM, "
        f"ssl.truststore.location: {folder / 'authority.pem'}, ssl.keystore.type: PEM, "
        f"ssl.keystore.location: {folder / 'own.pem'}}}}}"
    )


def test_a_new_password_is_read(tmp_path: Path) -> None:
    settings = by_password(tmp_path)
    (tmp_path / "password").write_text("second\n")
    access, properties = cluster_again(settings, "main")
    assert cluster_files(settings, "main") == (tmp_path / "password",)
    assert (access.password, properties["sasl.password"]) == ("second", "second")


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_password_is_refused(tmp_path: Path, text: str) -> None:
    settings = by_password(tmp_path)
    (tmp_path / "password").write_text(text)
    with pytest.raises(ConfigProblem, match=r"clusters\.main is not usable: the file .*password is empty"):
        cluster_again(settings, "main")


def test_certificates_that_are_whole_are_taken(tmp_path: Path, certificates: Certificates) -> None:
    settings = by_certificate(tmp_path, certificates)
    assert cluster_again(settings, "main")[0].tls is not None
    assert cluster_files(settings, "main") == (tmp_path / "authority.pem", tmp_path / "own.pem")


@pytest.mark.parametrize("name", ["authority.pem", "own.pem"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_certificates_that_are_half_written_are_refused(
    tmp_path: Path, certificates: Certificates, name: str, share: float
) -> None:
    settings = by_certificate(tmp_path, certificates)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ConfigProblem, match=r"clusters\.main is not usable: the file .* is (empty|not PEM)"):
        cluster_again(settings, "main")


def test_a_key_that_is_not_of_its_certificate_is_refused(tmp_path: Path, certificates: Certificates) -> None:
    settings = by_certificate(tmp_path, certificates)
    own, other = tmp_path / "own.pem", make_certificates(tmp_path / "others").node
    key, chain = b"-----BEGIN PRIVATE KEY", b"-----BEGIN CERTIFICATE"
    parts = {file: file.read_bytes() for file in (own, other)}
    others_key = parts[other][parts[other].index(key) :].split(chain)[0]
    own.write_bytes(chain + parts[own].split(chain, 1)[1].split(key)[0] + others_key)
    with pytest.raises(ConfigProblem, match="do not go together"):
        cluster_again(settings, "main")


def test_files_of_webhooks_and_units_are_known(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef")
    settings = loaded(
        "clusters: {main: {bootstrap.servers: 'a:1'}}\n"
        f"webhooks: {{ops: {{url: {{file: {tmp_path / 'address'}}}, secret_file: {tmp_path / 'key'}}}}}\n"
        "units: {w: {kind: connect, group: w, owner: o, control: {kind: connect, url: 'http://c/', user: u, "
        f"password: '${{file:connect}}', ca_file: {tmp_path / 'ca.pem'}}}}}}}\n"
    )
    assert webhook_files(settings, "ops") == (tmp_path / "key", tmp_path / "address")
    assert control_files(settings, "w") == (tmp_path / "connect", tmp_path / "ca.pem")

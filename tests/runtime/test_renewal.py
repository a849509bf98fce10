"""Who gets a secret that was read again: clients of Kafka, webhooks and the applications of units."""

from pathlib import Path
from typing import Any

import pytest

from recoveryd.adapters.control.make import Surroundings, make_controls
from recoveryd.adapters.http.signed_posts import WebhookTarget
from recoveryd.adapters.kafka import client
from recoveryd.adapters.kafka.client import Properties, let_in
from recoveryd.adapters.kafka.living_clients import AdminClients, LivingProperties, version_of
from recoveryd.errors import ClusterProblem, ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.renewal import SecretHolders
from recoveryd.settings import load
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_sandbox.pki import make_certificates

CONFIG = """
clusters:
  main:
    bootstrap.servers: 127.0.0.1:1
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: OAUTHBEARER
    sasl.oauthbearer.token.endpoint.url: http://127.0.0.1:1/token
    sasl.jaas.config: org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="a"
      clientSecret="${file:SECRET}";
webhooks:
  deploy: {url: "https://127.0.0.1:1/", secret_file: KEY}
units:
  words:
    kind: streams
    group: words
    inputs: [lines]
    owner: us
    control: {kind: webhook, webhook: deploy, status_url: "https://127.0.0.1:1/status", ca_file: CA}
"""


class Rig:
    def __init__(self, folder: Path, text: str = CONFIG) -> None:
        self.secret, self.key, config = folder / "secret", folder / "key", folder / "recoveryd.yaml"
        self.secret.write_text("first\n")
        self.key.write_text("0123456789abcdef\n")
        self.ca = make_certificates(folder / "certificates").authority
        config.write_text(
            text.replace("SECRET", str(self.secret)).replace("KEY", str(self.key)).replace("CA}", f"{self.ca}}}")
        )
        settings = load(config, env={})
        self.clients = {name: LivingProperties(found) for name, found in settings.librdkafka_all().items()}
        self.targets = {name: WebhookTarget(*target) for name, target in settings.webhook_targets().items()}
        around = Surroundings(folder, "here", "default", self.targets, {}, lambda: 0)
        self.controls = make_controls(settings.control_options(), around)
        self.accesses: dict[str, ClientAccess] = {"main": settings.access("main")}
        self.told: list[ClientAccess] = []
        self.tried: list[Any] = []
        self.refusal: ClusterProblem | None = None
        self.holders = SecretHolders(
            settings, self.clients, self.accesses, self.targets, self.controls, around, [self.told.append]
        )
        self.holders.try_login = self.try_login
        self.secrets = {secret.name: secret for secret in self.holders.secrets()}

    def try_login(self, properties: Properties, _cluster: str) -> None:
        self.tried.append(properties["sasl.oauthbearer.client.secret"])
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_every_client_is_made_anew_with_a_changed_secret_and_only_then(rig: Rig) -> None:
    main = rig.clients["main"]
    admins = AdminClients(rig.clients)
    before = admins.of("main")
    await rig.secrets["clusters.main"].renew()
    assert (version_of(main), admins.of("main") is before, rig.told) == (0, True, [])

    rig.secret.write_text("second\n")
    await rig.secrets["clusters.main"].renew()

    assert (version_of(main), main["sasl.oauthbearer.client.secret"]) == (1, "second")
    assert admins.of("main") is not before
    assert rig.accesses["main"].oauth is not None
    assert [access.oauth == rig.accesses["main"].oauth for access in rig.told] == [True]


async def test_a_secret_that_is_refused_leaves_everything_as_it_was(rig: Rig) -> None:
    rig.secret.write_text("")
    with pytest.raises(ConfigProblem, match="is empty"):
        await rig.secrets["clusters.main"].renew()
    rig.key.write_text("short")
    with pytest.raises(ConfigProblem, match="shorter than"):
        await rig.secrets["webhooks.deploy"].renew()
    assert (version_of(rig.clients["main"]), rig.told) == (0, [])
    assert rig.targets["deploy"].secret == b"0123456789abcdef"


async def test_a_webhook_signs_with_its_new_key_also_for_the_unit_that_it_controls(rig: Rig) -> None:
    rig.key.write_text("fedcba9876543210\n")
    await rig.secrets["webhooks.deploy"].renew()
    assert rig.targets["deploy"].secret == b"fedcba9876543210"
    control: Any = rig.controls._units["words"]
    assert control._applications["words"].target.secret == b"fedcba9876543210"
    await rig.controls.close()


async def test_an_address_of_a_webhook_in_a_file_is_read_again_and_refused_if_it_is_none(tmp_path: Path) -> None:
    (tmp_path / "address").write_text("https://127.0.0.1:1/first\n")
    rig = Rig(tmp_path, CONFIG.replace('"https://127.0.0.1:1/", secret', f"{{file: {tmp_path / 'address'}}}, secret"))
    (tmp_path / "address").write_text("https://127.0.0.1:1/second\n")
    await rig.secrets["webhooks.deploy"].renew()
    assert rig.targets["deploy"].url == "https://127.0.0.1:1/second"
    (tmp_path / "address").write_text("none\n")
    with pytest.raises(ConfigProblem, match=r"webhooks\.deploy\.url is not usable"):
        await rig.secrets["webhooks.deploy"].renew()
    assert rig.targets["deploy"].url == "https://127.0.0.1:1/second"
    await rig.controls.close()


async def test_a_key_that_a_webhooks_secret_refers_to_is_read_again_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path, CONFIG.replace("secret_file: KEY", 'secret: "${file:KEY}"'))
    rig.key.write_text("fedcba9876543210\n")
    await rig.secrets["webhooks.deploy"].renew()
    assert rig.targets["deploy"].secret == b"fedcba9876543210"
    await rig.controls.close()


async def test_a_login_is_taken_over_only_after_a_broker_said_yes(rig: Rig) -> None:
    rig.refusal = ClusterProblem("Cluster main does not let us in: invalid_client")
    rig.secret.write_text("second\n")
    with pytest.raises(ClusterProblem, match="invalid_client"):
        await rig.secrets["clusters.main"].renew()
    assert (version_of(rig.clients["main"]), rig.tried, rig.told) == (0, ["second"], [])
    rig.refusal = None
    await rig.secrets["clusters.main"].renew()
    assert (version_of(rig.clients["main"]), rig.tried, len(rig.told)) == (1, ["second", "second"], 1)


async def test_no_answer_is_no_yes_and_is_asked_for_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LET_IN_S", 1.0)
    rig.holders.try_login = let_in
    rig.secret.write_text("second\n")
    for _ in range(2):
        with pytest.raises(ClusterProblem):
            await rig.secrets["clusters.main"].renew()
    assert (version_of(rig.clients["main"]), rig.told) == (0, [])


def test_brokers_that_do_not_answer_are_named_with_a_retriable_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LET_IN_S", 1.0)
    with pytest.raises(ClusterProblem, match="No broker of cluster far answered") as refused:
        let_in({"bootstrap.servers": "127.0.0.1:1"}, "far")
    assert (refused.value.retriable, "in a minute" in refused.value.hint) == (True, True)


async def test_what_broke_on_the_way_is_done_again(rig: Rig) -> None:
    def breaks(_access: ClientAccess) -> None:
        raise OSError("no such file")

    rig.holders.main_renewed.append(breaks)
    rig.secret.write_text("second\n")
    with pytest.raises(OSError, match="no such file"):
        await rig.secrets["clusters.main"].renew()
    rig.holders.main_renewed.remove(breaks)
    before = len(rig.told)
    await rig.secrets["clusters.main"].renew()
    assert len(rig.told) == before + 1


async def test_a_webhook_is_renewed_with_all_of_its_units_or_not_at_all(rig: Rig) -> None:
    rig.key.write_text("fedcba9876543210\n")
    whole = rig.ca.read_bytes()
    rig.ca.write_text("")
    with pytest.raises(ConfigProblem):
        await rig.secrets["webhooks.deploy"].renew()
    control: Any = rig.controls._units["words"]
    assert rig.targets["deploy"].secret == control._applications["words"].target.secret == b"0123456789abcdef"
    rig.ca.write_bytes(whole)
    await rig.secrets["webhooks.deploy"].renew()
    assert rig.targets["deploy"].secret == control._applications["words"].target.secret == b"fedcba9876543210"
    await rig.controls.close()


def test_a_certificate_that_cannot_be_used_is_waited_for_once_it_could_be_used(tmp_path: Path) -> None:
    pem = make_certificates(tmp_path).authority
    whole = pem.read_bytes()
    properties = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "ssl", "ssl.ca.location": str(pem)}

    def refusal() -> tuple[Code, bool]:
        with pytest.raises(ClusterProblem) as refused:
            client.make_consumer(properties)
        return refused.value.code, refused.value.retriable

    pem.unlink()
    assert refusal() == (Code.CONFIG_INVALID, False)
    pem.write_bytes(whole)
    client.make_consumer(properties).close()
    pem.write_bytes(whole[: len(whole) // 2])
    assert refusal() == (Code.CONFIG_INVALID, True)
    pem.unlink()
    assert refusal() == (Code.CONFIG_INVALID, True)

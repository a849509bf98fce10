"""OAUTHBEARER by client credentials: every spelling comes out the same, for both client libraries."""

import pytest
from confluent_kafka.admin import AdminClient

from recoveryd.settings.jaas import PropertyProblem
from recoveryd.settings.kafka_properties import ClientAccess, Tls, read_access, to_librdkafka
from recoveryd.settings.oauth_properties import ENDPOINT, LOGIN_MODULE, OAuth
from recoveryd.settings.secrets import shown_property

URL = "https://id.example/oauth2/token"
COMMON = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": URL,
}
JAAS = f'{LOGIN_MODULE} required clientId="c" clientSecret="s" scope="kafka" extension_logicalCluster="lkc-1";'
LIBRDKAFKA = {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
}
JAVA = {
    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.oauthbearer.client.credentials.client.id": "c",
    "sasl.oauthbearer.client.credentials.client.secret": "s",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
}


@pytest.mark.parametrize("spelling", [{"sasl.jaas.config": JAAS}, LIBRDKAFKA, JAVA])
def test_every_spelling_means_the_same(spelling: dict[str, str]) -> None:
    oauth = OAuth(URL, "c", "s", "kafka", {"logicalCluster": "lkc-1"})
    access = read_access(COMMON | spelling)
    assert access == ClientAccess("a:1", "OAUTHBEARER", None, None, Tls(), {}, oauth)
    assert "'s'" not in repr(access)
    assert to_librdkafka(COMMON | spelling) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.endpoint.identification.algorithm": "https",
        **LIBRDKAFKA,
        "sasl.oauthbearer.token.endpoint.url": URL,
    }


def test_librdkafka_takes_what_we_make_of_them() -> None:
    AdminClient(to_librdkafka(COMMON | LIBRDKAFKA | {"security.protocol": "SASL_PLAINTEXT"}))


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        ({"sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method", "'default' is not oidc"),
        ({"sasl.login.callback.handler.class": "com.example.Handler"}, "sasl.login.callback.handler.class", "is Java code that cannot run here"),
        ({"sasl.oauthbearer.token.endpoint.url": "id.example"}, "sasl.oauthbearer.token.endpoint.url", "is missing or no URL"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://id:x/t"}, "sasl.oauthbearer.token.endpoint.url", "is missing or no URL"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://c:hunter2@id/t"}, "sasl.oauthbearer.token.endpoint.url", "must not hold a user or password"),
        ({"sasl.oauthbearer.client.id": ""}, "sasl.oauthbearer.client.credentials.client.id", "is missing"),
        ({"sasl.oauthbearer.client.secret": ""}, "sasl.oauthbearer.client.credentials.client.secret", "is missing"),
        ({"sasl.oauthbearer.client.credentials.client.id": "d"}, "sasl.oauthbearer.client.id", "is given together with"),
        ({"sasl.jaas.config": JAAS.replace('"c"', '"d"')}, "sasl.oauthbearer.client.id", "is given together with sasl.jaas.config (clientId)"),
        ({"sasl.jaas.config": JAAS.replace("oauthbearer.", "plain.")}, "sasl.jaas.config", "names org.apache.kafka.common.security.plain"),
        ({"sasl.oauthbearer.extensions": "x"}, "sasl.oauthbearer.extensions", "not of the form NAME=VALUE"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused(change: dict[str, str], key: str, message: str) -> None:
    with pytest.raises(PropertyProblem) as caught:
        to_librdkafka(COMMON | LIBRDKAFKA | change)
    assert caught.value.key == key
    assert message in caught.value.message
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (URL, URL),
        (f"{URL}?key=hunter2", f"{URL}?***"),
        (f"{URL}?p=${{file:/run/key}}#hunter2", f"{URL}?***"),
        ("https://c:hunter2@id/t", "https://***@id/t"),
        ("${env:ENDPOINT}", "${env:ENDPOINT}"),
    ],
)
def test_of_an_endpoint_nothing_is_shown_that_may_be_secret(written: str, shown: str) -> None:
    assert shown_property(ENDPOINT, written) == shown

"""librdkafka asks for tokens by itself, and logs the address when it gets none: the query of it may be a key."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka import client
from recoveryd_jobs import clients
from recoveryd_jobs.shared.kafka_log import without_queries
from tests.patience import patient_s

LOGIN = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token?key=hunter2",
    "sasl.oauthbearer.client.id": "us",
    "sasl.oauthbearer.client.secret": "s3cret",
}
MADE: dict[str, Callable[[], AdminClient | Consumer | Producer]] = {
    "admin of the daemon": lambda: client.make_admin(LOGIN),
    "consumer of the daemon": lambda: client.make_consumer(LOGIN),
    "producer of the daemon": lambda: client.make_producer(LOGIN, 5_000),
    "transactional producer of the daemon": lambda: client.make_transactional_producer(LOGIN, "t", 5_000),
    "canary": lambda: client.make_canary_producer(LOGIN, 5_000),
    "admin of a job": lambda: clients.make_admin(LOGIN, "c"),
    "reader of a lane": lambda: clients.make_reader(LOGIN, "c", 1_000_000),
    "writer of a lane": lambda: clients.make_writer(LOGIN, "c", "t", 5_000, 1_000_000, "none"),
    "sender of a lane": lambda: clients.make_sender(LOGIN, "c"),
}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return


@pytest.mark.parametrize("who", MADE)
def test_the_query_of_a_token_endpoint_is_in_no_log(
    who: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    kafka = MADE[who]()
    seen, deadline_s = "", time.monotonic() + patient_s(2)
    while "OIDC" not in seen and time.monotonic() < deadline_s:
        if isinstance(kafka, Consumer):
            kafka.consume(10, 0.1)  # as lanes do
        else:
            kafka.poll(0.1)
        seen = caplog.text + capfd.readouterr().err
    assert 'token from "http://127.0.0.1:1/token?***": Failed to connect' in seen
    assert "hunter2" not in seen
    if isinstance(kafka, Consumer):
        kafka.close()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('from "https://id/t?key=a&b=c": Failed', 'from "https://id/t?***": Failed'),
        ('from "https://id/t#part": Failed', 'from "https://id/t?***": Failed'),
        ('from "https://id/t?a="b"c": Failed', 'from "https://id/t?***": Failed'),
        ("HTTPS://id/t?k HTTP://id/u?k", "HTTPS://id/t?*** HTTP://id/u?***"),
        ("is it https://id/t ? yes", "is it https://id/t ? yes"),
        ("sasl_ssl://broker:9092/bootstrap: what?", "sasl_ssl://broker:9092/bootstrap: what?"),
    ],
)
def test_of_an_address_only_the_query_goes(text: str, shown: str) -> None:
    assert without_queries(text) == shown

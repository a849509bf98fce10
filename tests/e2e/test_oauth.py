"""A broker that demands tokens: daemon, lanes and command line log in by OAUTHBEARER, with the same properties."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.oauth_tokens import TokenProblem, TokenProvider
from recoveryd.settings.kafka_properties import read_access
from recoveryd.settings.oauth_properties import OAuth
from recoveryd_sandbox.broker import Broker
from tests.e2e.case import Case
from tests.e2e.data import fill_plain
from tests.e2e.oauth import CLIENT_ID, CLIENT_SECRET, SCOPE, OAuthNode, TokenEndpoint
from tests.e2e.stack import Stack

NODE_ID = 1


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenEndpoint]:
    with TokenEndpoint(tmp_path_factory.mktemp("tokens")) as serving:
        yield serving


async def test_a_token_is_asked_for_once_and_used_until_it_is_old(endpoint: TokenEndpoint) -> None:
    provider = TokenProvider(OAuth(endpoint.url, CLIENT_ID, CLIENT_SECRET, SCOPE, {"a": "b"}))
    before = endpoint.granted
    assert await provider.token() == await provider.token()
    assert endpoint.granted == before + 1
    assert provider.extensions() == {"a": "b"}


async def test_an_old_token_is_replaced(tmp_path: Path) -> None:
    with TokenEndpoint(tmp_path, life_s=0) as hasty:
        provider = TokenProvider(OAuth(hasty.url, CLIENT_ID, CLIENT_SECRET, SCOPE))
        provider._token, provider._until_s = "old", 0.0
        assert await provider.token() != "old"


async def test_an_endpoint_that_refuses_or_is_not_there_is_named_without_the_secret(endpoint: TokenEndpoint) -> None:
    for url, secret, said in ((endpoint.url, "wrong-one", "answered 401"), ("http://127.0.0.1:1/t", "wrong-one", "cannot be asked")):  # fmt: skip
        with pytest.raises(TokenProblem, match=said) as caught:
            await TokenProvider(OAuth(url, CLIENT_ID, secret, SCOPE)).token()
        assert url in str(caught.value)
        assert secret not in str(caught.value)


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.e2e
def test_a_replay_on_a_broker_that_wants_tokens(
    endpoint: TokenEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted, refused = endpoint.granted, endpoint.refused
    # Kafka asks no URL that its operator did not allow by a property of the JVM.
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint.url},{endpoint.keys_url}"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", allowed)
    node = OAuthNode(endpoint)
    with Broker(tmp_path / "kafka", layout=node) as broker:
        monkeypatch.delenv("JDK_JAVA_OPTIONS")
        settings = {"clusters": {"main": node.client(broker.bootstrap)}}
        with Stack(node.plain, tmp_path / "stack", settings) as stack, stack.running():
            source = f"{stack.mark}-source"
            fill_plain(node.plain, source, 2, 1_000)
            case = Case(stack, "by-token", source, f"{stack.mark}-copy")
            case.start(records_per_s=None)
            case.judge()
            answers = LeaderAnswers({"main": read_access(node.client(broker.bootstrap))})
            leaders = dict.fromkeys(range(2), NODE_ID)
            on_disk = asyncio.run(answers.log_sizes("main", source, leaders))
            assert on_disk is not None, "the sizes that plans tell are asked for by token as well"
            assert all(on_disk[p] > 0 for p in leaders)
            logs = [*(tmp_path / "stack").rglob("*.log"), *(tmp_path / "stack").rglob("status*")]
            assert not any(CLIENT_SECRET in log.read_text(errors="replace") for log in logs)
    assert endpoint.granted > granted + 3, "daemon, driver and lanes each have their own"
    assert endpoint.refused == refused

"""What a cluster has and lacks, by the requests that its brokers say they answer."""

from typing import Any

import pytest
from aiokafka.protocol.api import RequestStruct

from recoveryd.adapters.kafka import raw_descriptions, raw_forms
from recoveryd.units.features import FEATURES, NAMES, Request, judge_features, name_of
from recoveryd.units.platform import NEEDED_APIS

ALL = {request.key: (0, request.version) for feature in FEATURES for request in feature.requests}
REQUESTS = [(feature, request) for feature in FEATURES for request in feature.requests]


def test_where_brokers_answer_everything_nothing_is_lacking() -> None:
    assert [row.feature.name for row in judge_features(ALL) if not row.is_there] == []


@pytest.mark.scenario("S-RUN-25")
@pytest.mark.parametrize(("feature", "request_"), REQUESTS, ids=[request.name for _, request in REQUESTS])
def test_a_request_that_is_not_answered_takes_its_feature_away_and_no_other(feature, request_: Request) -> None:  # type: ignore[no-untyped-def]
    lacking = {
        row.feature.name: row.lacking for row in judge_features({k: v for k, v in ALL.items() if k != request_.key})
    }
    assert {name: found for name, found in lacking.items() if found} == {feature.name: (request_.name,)}


def test_an_older_version_than_the_one_that_is_used_is_lacking_with_its_number() -> None:
    lacking = [row.lacking for row in judge_features(ALL | {16: (0, 4)}) if not row.is_there]
    assert lacking == [("ListGroups version 5",)]


def test_the_versions_are_those_that_are_sent() -> None:
    modules = (raw_forms, raw_descriptions)
    found: list[Any] = [f for m in modules for f in vars(m).values() if isinstance(f, type)]
    sent = {f.API_KEY: f.API_VERSION for f in found if issubclass(f, RequestStruct) and hasattr(f, "API_KEY")}
    asked = {request.key: request.version for _, request in REQUESTS}
    basic = {8, 9}  # commits, which every broker takes and gives
    assert {key: version for key, version in sent.items() if key not in basic} == {
        key: asked.get(key) for key in sent if key not in basic
    }


def test_what_is_sent_beyond_basic_requests_is_named_in_a_problem() -> None:
    assert name_of(49) == "AlterClientQuotas"
    assert name_of(999) == "request 999"
    assert {*NEEDED_APIS} - {*NAMES} == {23}  # used by the client library alone

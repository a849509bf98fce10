"""Real topics for tests of lanes and verifier."""

import pytest

from tests.builders.copying import Cluster


@pytest.fixture
def cluster(bootstrap: str, unique: str) -> Cluster:
    return Cluster(bootstrap, unique)

"""What the chosen tests of a file want, for a fixture that goes through a long series: it leaves out the rest."""

from collections.abc import Mapping
from typing import Any

import pytest


def chosen_points(request: pytest.FixtureRequest) -> set[str]:
    """At which points somebody dies in the chosen tests of this file, by their argument `point`."""
    return {params["point"] for params in chosen(request, "point").values()}


def chosen(request: pytest.FixtureRequest, wanted: str) -> dict[str, Mapping[str, Any]]:
    """The parameters of each chosen test of this file that takes the argument `wanted`, by the id of the test."""
    return {
        test.nodeid: test.callspec.params
        for test in request.session.items
        if isinstance(test, pytest.Function) and test.path == request.path and wanted in test.fixturenames
    }

"""Prometheus and promtool for the tests: found, or unpacked from Debian's package; without them the tests are skipped
with the reason, or fail if they are required.
"""

import pytest

from grafana.pictures.binaries import Binaries, Unavailable, find_prometheus, is_required


@pytest.fixture(scope="session")
def prometheus_binaries() -> Binaries:
    try:
        return find_prometheus()
    except Unavailable as reason:
        if is_required():
            pytest.fail(str(reason))
        pytest.skip(str(reason))

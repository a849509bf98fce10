"""Where no small disk can be mounted, tests that need one are skipped, and fail where they are asked for."""

from pathlib import Path

import pytest

from tests.e2e.small_disk import SWITCH, SmallDisk

_IMPOSSIBLE = -1  # megabytes: refused to root too


@pytest.mark.parametrize(("asked", "told"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_without_a_small_disk_a_test_is_skipped_or_fails_where_it_is_asked_for(
    asked: str, told: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, asked)
    with pytest.raises(told, match="no small disk can be mounted here"), SmallDisk(tmp_path / "small", _IMPOSSIBLE):
        pass

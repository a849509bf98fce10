"""How programs of the sandbox refuse a scenario that cannot be used: with a code, a sentence and a next step."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code


def check_refused(read: Callable[[Path], object], file: Path, text: str, code: Code, said: str, hint: str) -> None:
    """`file` gets the text."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigProblem) as refusal:
        read(file)
    assert refusal.value.code is code
    assert said in refusal.value.message
    assert refusal.value.hint
    assert hint in refusal.value.hint


def told_on_refusal(
    main: Callable[[], int],
    words: Sequence[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """What a program prints that refuses these words before it starts anything."""
    monkeypatch.setattr("sys.argv", [main.__module__, *words])
    assert main() == 2
    told = capsys.readouterr().out
    assert "next: " in told
    return told

"""`webhooks:` of the config: strict, read late, and never shown."""

from pathlib import Path

import pytest

from recoveryd.errors import ConfigProblem
from tests.settings.test_settings import MINIMAL, loaded, problem

KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def webhook(options: str) -> str:
    return f"{MINIMAL}webhooks: {{stop-it: {{{options}}}}}\n"


def test_a_webhook_has_a_url_and_a_key_from_the_config_or_a_file() -> None:
    Path("key").write_text(f"{KEY}-of-the-file\n")
    inline = loaded(webhook(f"url: 'https://ops.example.org/hooks/1?x=2', secret: {KEY}"))
    from_file = loaded(webhook("url: 'http://10.0.0.1:8080', secret_file: key"))
    assert inline.webhook_targets() == {"stop-it": ("https://ops.example.org/hooks/1?x=2", KEY.encode())}
    assert from_file.webhook_targets() == {"stop-it": ("http://10.0.0.1:8080", f"{KEY}-of-the-file".encode())}


@pytest.mark.parametrize(
    "written", ["'${env:HOOK}'", "'${file:key}'", "{env: HOOK}", "{file: key}", "'${env:HALF}${file:half}'"]
)
def test_a_key_may_stand_in_a_file_or_a_variable(written: str) -> None:
    Path("key").write_text(f"{KEY}\n")
    Path("half").write_text(KEY[8:])
    settings = loaded(webhook(f"url: 'https://a/b', secret: {written}"), {"HOOK": KEY, "HALF": KEY[:8]})
    assert settings.webhook_targets() == {"stop-it": ("https://a/b", KEY.encode())}
    assert KEY not in repr(settings) + str(settings.show())


@pytest.mark.parametrize("written", ["'${env:HOOK}'", "{env: HOOK}", "'${file:key}'", "{file: key}"])
@pytest.mark.parametrize("key", [None, "short"])
def test_a_key_that_is_not_usable_where_it_stands_is_named_with_its_line(written: str, key: str | None) -> None:
    if key is not None:
        Path("key").write_text(key)
    settings = loaded(webhook(f"url: 'https://a/b', secret: {written}"), {} if key is None else {"HOOK": key})
    with pytest.raises(
        ConfigProblem, match="cannot be read|is not set" if key is None else "shorter than 16"
    ) as caught:
        settings.webhook_targets()
    assert (caught.value.key, caught.value.line) == ("webhooks.stop-it.secret", 2)


@pytest.mark.parametrize(
    "written", ["'${env:HOOK}'", "'${file:hook}'", "{env: HOOK}", "{file: hook}", "'https://a/${file:half}'"]
)
def test_an_address_may_stand_in_a_file_or_a_variable(written: str) -> None:
    url = "https://a/services/T0/B0"
    Path("hook").write_text(f"{url}\n")
    Path("half").write_text("services/T0/B0")
    settings = loaded(webhook(f"url: {written}, secret: {KEY}"), {"HOOK": url})
    assert settings.webhook_targets() == {"stop-it": (url, KEY.encode())}
    assert "B0" not in repr(settings) + str(settings.show())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read"),
        ("ftp://a/private", "must be an http or https address"),
        ("https://me:private@a/b", "must not hold a user or password"),
        (f"https://a/{'private' * 300}", "at most 2000 characters"),
    ],
)
def test_an_address_that_is_not_usable_where_it_stands_is_named_when_it_is_needed(text: str | None, says: str) -> None:
    if text is not None:
        Path("hook").write_text(text)
    settings = loaded(webhook(f"url: {{file: hook}}, secret: {KEY}"))  # as everybody may who only looks
    with pytest.raises(ConfigProblem, match=says) as caught:
        settings.webhook_targets()
    assert (caught.value.key, caught.value.line) == ("webhooks.stop-it.url", 2)
    assert "private" not in f"{caught.value} {caught.value.hint}"


def test_an_address_that_is_secret_may_come_from_a_variable_beside_the_file() -> None:
    settings = loaded(
        webhook(f"secret: {KEY}").replace("stop-it", "chat"),
        {"RECOVERYD_WEBHOOKS__CHAT__URL": "https://hooks.example.org/services/T0/B0"},
    )
    assert settings.webhook_targets() == {"chat": ("https://hooks.example.org/services/T0/B0", KEY.encode())}


def test_neither_key_nor_path_is_ever_shown() -> None:
    settings = loaded(webhook(f"url: 'https://ops.example.org:444/hooks/private?x=2', secret: {KEY}"))
    shown = {value.key: value.value for value in settings.show() if value.key.startswith("webhooks")}
    assert shown == {
        "webhooks.stop-it.url": "https://ops.example.org:444/***",
        "webhooks.stop-it.secret": "***",
        "webhooks.stop-it.secret_file": None,
        "webhooks.stop-it.transitions": None,
    }
    told = f"{settings.values!r} {settings!r}"
    assert KEY not in told
    assert "private" not in told


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (f"secret: {KEY}", "webhooks.stop-it.url is required"),
        ("url: 'https://a/b'", "needs secret or secret_file, and not both"),
        (f"url: 'https://a/b', secret: {KEY}, secret_file: key", "needs secret or secret_file, and not both"),
        ("url: 'https://a/b', secret: short", "16"),
        (f"url: 'ftp://a/b', secret: {KEY}", "must be an http or https address"),
        (f"url: '/b', secret: {KEY}", "must be an http or https address"),
        (f"url: 'http://', secret: {KEY}", "must be an http or https address"),
        (f"url: 'http://a:99999/', secret: {KEY}", "must be an http or https address"),
        (f"url: 'https://me:pw@a/b', secret: {KEY}", "must not hold a user or password"),
        (f"url: 'https://a/b#c', secret: {KEY}", "must not hold a #fragment"),
        (f"url: {{file: a, env: B}}, secret: {KEY}", "must be a text, {file: PATH} or {env: NAME}"),
        (f"url: 'https://a/{'b' * 2_000}', secret: {KEY}", "at most 2000 characters"),
        (f"url: 'https://a/b', secret: {KEY}, retries: 3", "There is no key webhooks.stop-it.retries"),
    ],
)
def test_what_is_wrong_is_named_without_showing_a_key(options: str, says: str) -> None:
    found = problem(webhook(options))
    assert says in found.message
    assert KEY not in f"{found.message} {found.hint}"


@pytest.mark.parametrize(
    ("text", "says"), [(None, "No such file"), ("short", "shorter than 16"), (b"\xff" * 20, "is not text")]
)
def test_a_key_file_that_is_not_usable_is_named(text: str | bytes | None, says: str) -> None:
    if text is not None:
        Path("key").write_bytes(text if isinstance(text, bytes) else text.encode())
    settings = loaded(webhook("url: 'https://a/b', secret_file: key"))
    with pytest.raises(ConfigProblem) as caught:
        settings.webhook_targets()
    assert says in caught.value.message
    assert caught.value.key == "webhooks.stop-it.secret_file"

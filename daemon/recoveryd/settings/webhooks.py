"""Webhooks that commands may name, and that hear of transitions: the URL, and the secret for signing. A command never
holds a URL.

The secret is in the config or, better, in a file or variable that only the daemon reads, and so is a URL whose path is
secret: both are read when a webhook is to be called, not by everybody who reads the config. Neither is ever shown.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from recoveryd.kernel.states import State
from recoveryd.settings.addresses import http_parts
from recoveryd.settings.kinds import Secret, Section, Stored, option
from recoveryd.settings.secrets import MASK, read_secret, refers, shown_secret
from recoveryd.settings.sources import Key, Origin, problem_at
from recoveryd.wire.transitions import BodyForm

SECRET_CHARS_LEAST: Final = 16
URL_CHARS_MOST: Final = 2_000


def check_url(url: str) -> str:
    parts = http_parts(url)
    if parts is None:
        raise ValueError("must be an http or https address such as https://ops.example.org/hooks/1")
    if parts.username or parts.password:
        raise ValueError("must not hold a user or password; the signature says who calls")
    if parts.fragment:
        raise ValueError("must not hold a #fragment, which is never sent")
    return check_whole(url)


def check_whole(url: str) -> str:
    """For a URL that is no secret to look up: what it refers to would be sent as it is written."""
    if refers(url):
        raise ValueError(
            "is taken as it stands: only secrets may refer to files and variables; write the whole address"
        )
    return url


def shown_url(url: str) -> str:
    """Host and port only."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/" + (MASK if parts.path not in {"", "/"} or parts.query else "")


VERBS: Final = (
    "replay",
    "verify",
    "watch",
    "hold",
    "schedule",
    "reset",
    "reprocess",
    "savepoint",
    "restore_savepoint",
    "upgrade",
    "runbook",
)


def _check_verb(verb: str) -> str:
    if verb not in VERBS:
        raise ValueError(f"{verb!r} begins nothing that has a state; take {', '.join(VERBS)}")
    return verb


def _check_key(key: str | Stored) -> str | Stored:
    if isinstance(key, str) and not refers(key):
        _check_length(key)
    return key


def _check_length(key: str) -> None:
    if len(key) < SECRET_CHARS_LEAST:
        raise ValueError(f"the key is shorter than {SECRET_CHARS_LEAST} characters")


def _check_address(url: str | Stored) -> str | Stored:
    return _checked_address(url) if isinstance(url, str) and not refers(url) else url


def _checked_address(url: str) -> str:
    if len(url) > URL_CHARS_MOST:
        raise ValueError(f"must have at most {URL_CHARS_MOST} characters")
    return check_url(url)


def _shown_address(url: str | Stored) -> object:
    if isinstance(url, dict):
        return url
    return shown_secret(url) if refers(url) else shown_url(url)


class TransitionsSection(Section):
    """What a webhook hears of without being named by a command."""

    verbs: Annotated[tuple[Annotated[str, AfterValidator(_check_verb)], ...], Field(max_length=100)] = option(
        (), "Of what these commands began; empty is all."
    )
    states: Annotated[tuple[State, ...], Field(max_length=100)] = option(
        (), "When one of these states is entered; empty is all."
    )
    form: BodyForm = option(
        BodyForm.CLOUDEVENT,
        'cloudevent, slack ({"text": ...}, as chats take it), or alertmanager (POST /api/v2/alerts).',
    )


class WebhookSection(Section):
    url: Annotated[Secret, AfterValidator(_check_address), PlainSerializer(_shown_address)] = Field(
        description="Address that is sent a signed POST, or, where it is secret, {file: PATH} or {env: NAME}; redirects are not "
        "followed.",
        repr=False,
    )
    secret: Annotated[Secret, AfterValidator(_check_key)] | None = option(
        None,
        "Key of the HMAC-SHA256 signature, at least 16 characters: a text, {file: PATH} or {env: NAME}.",
        repr=False,
    )
    secret_file: str | None = option(None, "File that holds the key instead; its last line end is cut.")

    transitions: TransitionsSection | None = option(
        None, "Called whenever something moves to another state: {verbs, states, form}; null is never."
    )

    @model_validator(mode="after")
    def _has_one_secret(self) -> Self:
        if (self.secret is None) == (self.secret_file is None):
            raise ValueError("needs secret or secret_file, and not both")
        return self

    @property
    def key_option(self) -> str:
        """The option that says what the key is."""
        return "secret" if self.secret_file is None else "secret_file"

    @property
    def written_key(self) -> str | Stored | None:
        return self.secret if self.secret_file is None else {"file": self.secret_file}

    def read_url(self, name: str, origins: Mapping[Key, Origin], environment: Mapping[str, str]) -> str:
        """The address. Raises `ConfigProblem` with the line."""
        key = ("webhooks", name, "url")
        url = read_secret(key, self.url, origins, environment)
        try:
            return _checked_address(url)
        except ValueError as problem:
            raise problem_at(key, origins, f"is not usable: it {problem}") from None

    def read_secret(self, name: str, origins: Mapping[Key, Origin], environment: Mapping[str, str]) -> bytes:
        """The key. Raises `ConfigProblem` with the line."""
        key = ("webhooks", name, self.key_option)
        secret = read_secret(key, self.written_key, origins, environment)
        try:
            _check_length(secret)
        except ValueError as problem:
            raise problem_at(key, origins, f"is not usable: {problem}") from None
        return secret.encode()

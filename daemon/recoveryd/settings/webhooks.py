"""Webhooks that commands may name, and that hear of transitions: the URL, and the secret for signing. A command never
holds a URL.

The secret is in the config or, better, in a separate file that only the daemon reads. Neither the secret nor the path
of a URL, which is often secret too, is ever shown.
"""

from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.states import State
from recoveryd.settings.kinds import Section, option
from recoveryd.settings.secrets import MASK, SecretProblem, read_secret_file
from recoveryd.wire.transitions import BodyForm

SECRET_CHARS_LEAST: Final = 16


def check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not url.isprintable() or " " in url:
        raise ValueError("must be an http or https address such as https://ops.example.org/hooks/1")
    if parts.username or parts.password:
        raise ValueError("must not hold a user or password; the signature says who calls")
    if parts.fragment:
        raise ValueError("must not hold a #fragment, which is never sent")
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
    url: Annotated[str, Field(max_length=2_000), AfterValidator(check_url), PlainSerializer(shown_url)] = Field(
        description="Address that is sent a signed POST; redirects are not followed.", repr=False
    )
    secret: Annotated[str, Field(min_length=SECRET_CHARS_LEAST), PlainSerializer(lambda s: s and MASK)] | None = option(
        None, "Key of the HMAC-SHA256 signature, at least 16 characters.", repr=False
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

    def read_secret(self, name: str) -> bytes:
        """The key. Raises `ConfigProblem`."""
        if self.secret is not None:
            return self.secret.encode()
        key = f"webhooks.{name}.secret_file"
        try:
            secret = read_secret_file(str(self.secret_file))
        except SecretProblem as problem:
            raise ConfigProblem(f"{key} is not usable: {problem}.", key=key) from None
        if len(secret) < SECRET_CHARS_LEAST:
            raise ConfigProblem(f"{key}: the key is shorter than {SECRET_CHARS_LEAST} characters.", key=key)
        return secret.encode()

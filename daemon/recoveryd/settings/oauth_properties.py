"""SASL OAUTHBEARER by client credentials (OIDC): the spellings of Kafka's Java client and of librdkafka, made into one
form.

Identity and secret may stand in the login line (`sasl.jaas.config`), in the properties Java has since Kafka 4.1, or in
librdkafka's own; two that disagree are refused. This module only finds out where tokens come from; it fetches none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from recoveryd.settings import jaas
from recoveryd.settings.addresses import http_parts
from recoveryd.settings.jaas import PropertyProblem, read_jaas

MECHANISM: Final = "OAUTHBEARER"
LOGIN_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
METHOD: Final = "sasl.oauthbearer.method"
HANDLER: Final = "sasl.login.callback.handler.class"
CA_FILE: Final = "https.ca.location"
EXTENSIONS: Final = "sasl.oauthbearer.extensions"
_EXAMPLE: Final = 'clientId="..." clientSecret="..." scope="..."'
_HANDLERS: Final = frozenset({
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
})  # fmt: skip
# The names of each setting: in the login line, then as properties.
_SPELLINGS: Final = {
    "client id": ("clientId", "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    "client secret": (
        "clientSecret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
    ),
    "scope": ("scope", "sasl.oauthbearer.scope"),
}
PROPERTIES: Final = (
    ENDPOINT,
    METHOD,
    HANDLER,
    *(name for names in _SPELLINGS.values() for name in names[1:]),
    EXTENSIONS,
    CA_FILE,
)
SECRET_PROPERTIES: Final = frozenset(_SPELLINGS["client secret"][1:])


@dataclass(frozen=True, slots=True)
class OAuth:
    """Where and as whom to ask for tokens. `extensions` go to the broker with each token; `ca_file` None = the system's
    trust store.
    """

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None


def read_oauth(properties: Mapping[str, str]) -> OAuth:
    """The settings in these properties. Raises `PropertyProblem` for what is missing or given twice, and for another
    flow than client credentials.
    """
    method = properties.get(METHOD, "oidc").lower()
    if method != "oidc":
        raise PropertyProblem(METHOD, f"{method!r} is not oidc", "Only tokens of an OIDC token endpoint are supported.")
    handler = properties.get(HANDLER)
    if handler is not None and handler not in _HANDLERS:
        raise PropertyProblem(HANDLER, f"{handler} is Java code that cannot run here", f"Remove it, or set {ENDPOINT}.")
    endpoint = _endpoint(properties)
    login: Mapping[str, str] = {}
    if jaas.KEY in properties:
        login = read_jaas(properties[jaas.KEY], LOGIN_MODULE, MECHANISM, _EXAMPLE)
    return OAuth(
        endpoint=endpoint,
        client_id=_wanted("client id", properties, login),
        client_secret=_wanted("client secret", properties, login),
        scope=_found("scope", properties, login),
        extensions=_extensions(properties, login),
        ca_file=properties.get(CA_FILE),
    )


def shown_endpoint(url: str) -> str:
    """Without what may be secret: what stands before its @, and behind its ? or #."""
    return re.sub(r"(?<=://).*@", "***@", re.sub(r"[?#].*", "?***", url))


def oauth_for_librdkafka(oauth: OAuth) -> dict[str, str]:
    made = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": oauth.endpoint,
        "sasl.oauthbearer.client.id": oauth.client_id,
        "sasl.oauthbearer.client.secret": oauth.client_secret,
        "sasl.oauthbearer.scope": oauth.scope,
        "sasl.oauthbearer.extensions": ",".join(f"{name}={value}" for name, value in oauth.extensions.items()),
        CA_FILE: oauth.ca_file or "",
    }
    return {name: value for name, value in made.items() if value}


def _endpoint(properties: Mapping[str, str]) -> str:
    endpoint = properties.get(ENDPOINT, "")
    parts = http_parts(endpoint)
    if parts is None:
        raise PropertyProblem(ENDPOINT, "is missing or no URL", "Write https://HOST/PATH of the token endpoint.")
    if parts.username or parts.password:
        hint = f"Write them as clientId and clientSecret in {jaas.KEY}."
        raise PropertyProblem(ENDPOINT, "must not hold a user or password", hint)
    return endpoint


def _found(what: str, properties: Mapping[str, str], login: Mapping[str, str]) -> str:
    option, *names = _SPELLINGS[what]
    said = {f"{jaas.KEY} ({option})": login.get(option), **{name: properties.get(name) for name in names}}
    given = {name: value for name, value in said.items() if value}
    if len(set(given.values())) > 1:
        raise PropertyProblem(list(given)[-1], f"is given together with {next(iter(given))}", "Keep one of the two.")
    return next(iter(given.values()), "")


def _wanted(what: str, properties: Mapping[str, str], login: Mapping[str, str]) -> str:
    found = _found(what, properties, login)
    if not found:
        option, *names = _SPELLINGS[what]
        raise PropertyProblem(names[0], "is missing", f"Set it, or {option} in {jaas.KEY}.")
    return found


def _extensions(properties: Mapping[str, str], login: Mapping[str, str]) -> dict[str, str]:
    prefix = "extension_"
    found = {name.removeprefix(prefix): value for name, value in login.items() if name.startswith(prefix)}
    for item in filter(None, properties.get(EXTENSIONS, "").split(",")):
        name, separator, value = item.strip().partition("=")
        if not separator or not name:
            raise PropertyProblem(EXTENSIONS, "is not of the form NAME=VALUE,NAME=VALUE")
        found[name] = value
    return found

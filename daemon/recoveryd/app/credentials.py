"""How the Faust worker connects to a cluster: the configured access in Faust's terms."""

from collections.abc import Iterable
from typing import Any, Final

from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT

from recoveryd.adapters.kafka.oauth_tokens import TokenProvider
from recoveryd.settings.kafka_properties import ClientAccess, make_ssl_context

REQUEST_TIMEOUT_S: Final = 30.0
_FOR_EVER_MS: Final = 2**31 - 1

# Those of the tuning that Faust passes on to its clients.
_TUNING: Final = {
    "metadata.max.age.ms": ("consumer_metadata_max_age_ms", "producer_metadata_max_age_ms"),
    "connections.max.idle.ms": ("consumer_connections_max_idle_ms", "producer_connections_max_idle_ms"),
}


def tuning_of(access: ClientAccess) -> dict[str, Any]:
    """Arguments of `faust.App`. 0 is for ever, as for librdkafka."""
    return {
        ours: int(access.tuning[name]) or _FOR_EVER_MS
        for name, of_both in _TUNING.items()
        if name in access.tuning
        for ours in of_both
    }


def request_timeout_s(access: ClientAccess) -> float:
    given = access.tuning.get("request.timeout.ms")
    return REQUEST_TIMEOUT_S if given is None else int(given) / 1000


def credentials_of(access: ClientAccess) -> CredentialsT | None:
    """None = plain text without login. Call it inside the event loop. Raises OSError or `ssl.SSLError` when a file does
    not exist or is not PEM.
    """
    context = make_ssl_context(access.tls) if access.tls is not None else None
    if access.oauth is not None:
        return OAuthCredentials(oauth_cb=TokenProvider(access.oauth), ssl_context=context)
    if access.mechanism is not None:
        return SASLCredentials(
            username=access.username, password=access.password, ssl_context=context, mechanism=access.mechanism
        )
    return SSLCredentials(context) if context is not None else None


def forget_token(credentials: CredentialsT | None) -> None:
    """Let the next connection ask for a token, if it logs in with one."""
    if isinstance(credentials, OAuthCredentials) and isinstance(credentials.oauth_cb, TokenProvider):
        credentials.oauth_cb.forget()


def take_login(credentials: CredentialsT | None, access: ClientAccess, clients: Iterable[Any]) -> None:
    """Let what connects with these credentials, and these clients of aiokafka that were made with them, use another
    secret, and trust who is trusted now and nobody else: so a context is made anew, since one can only be added to.
    Present connections stay as they are. Raises as `credentials_of`.
    """
    context = make_ssl_context(access.tls) if access.tls is not None else None
    match credentials:
        case OAuthCredentials(oauth_cb=TokenProvider() as provider) if access.oauth is not None:
            provider.take(access.oauth)
        case SASLCredentials():
            credentials.username, credentials.password = access.username, access.password
    if context is not None and isinstance(credentials, SSLCredentials):
        credentials.context = context
    elif context is not None and isinstance(credentials, SASLCredentials | OAuthCredentials):
        credentials.ssl_context = context
    for client in clients:
        if context is not None:
            client._ssl_context = context  # noqa: SLF001
        if access.mechanism is not None and access.oauth is None:
            client._sasl_plain_username, client._sasl_plain_password = access.username, access.password  # noqa: SLF001

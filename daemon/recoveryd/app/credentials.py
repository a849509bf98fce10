"""How the Faust worker connects to a secured cluster: the configured access in Faust's terms."""

from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT

from recoveryd.adapters.kafka.oauth_tokens import TokenProvider
from recoveryd.settings.kafka_properties import ClientAccess, make_ssl_context
from recoveryd.settings.renewing import renew_context


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


def take_login(credentials: CredentialsT | None, access: ClientAccess) -> None:
    """Let what connects with these credentials use another secret. Raises as `credentials_of`."""
    match credentials:
        case OAuthCredentials(oauth_cb=TokenProvider() as provider) if access.oauth is not None:
            provider.take(access.oauth)
        case SASLCredentials():
            credentials.username, credentials.password = access.username, access.password
    context = (
        credentials.context if isinstance(credentials, SSLCredentials) else getattr(credentials, "ssl_context", None)
    )
    if context is not None and access.tls is not None:
        renew_context(context, access.tls)

"""How the Faust worker connects to a secured cluster: the configured access in Faust's terms."""

from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT

from recoveryd.adapters.kafka.oauth_tokens import TokenProvider
from recoveryd.settings.kafka_properties import ClientAccess, make_ssl_context


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

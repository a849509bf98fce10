"""Why nobody answered, as a sentence. It never holds an address: paths and queries may be secrets."""

import aiohttp


def why_unanswered(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        found = error.certificate_error
        return f"its certificate is not trusted: {getattr(found, 'verify_message', '') or type(found).__name__}"
    if isinstance(error, aiohttp.ClientSSLError):
        return "no connection: it does not speak TLS as it should"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection: {error.os_error.strerror or type(error).__name__}"
    return f"no answer: {type(error).__name__}"


def is_passing(error: Exception) -> bool:
    """Whether asking again may help without anybody changing something."""
    return not isinstance(error, aiohttp.ClientSSLError)

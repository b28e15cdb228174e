"""The border to aiohttp: whatever it raises becomes one of our errors, none of its own get past."""

import os
import ssl
from typing import Final

import aiohttp
from yarl import URL

from crawlfleet.adapters.http_coding import BadCodingError
from crawlfleet.errors import (
    AddressRefusedError,
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    PageGoneError,
    ServerFaultError,
)

_MESSAGE_LENGTH: Final = 300
_BY_PROXY: Final = "through the proxy "


class RefusedAddressError(OSError):
    """Raised by the socket factory, and wrapped by aiohttp on its way to :func:`translated`.

    One text for every address: aiohttp then reports this error even when it refused several, and
    the tenant does not learn what our name servers say about the inside.
    """

    def __init__(self) -> None:
        super().__init__("the host leads to an address that is not public")


class SilentSiteError(TimeoutError):
    """The request is sent, and no answer has begun in the time for that."""


def translated(error: Exception) -> FetchError:
    """The error of ours that one of aiohttp's amounts to, to be raised from it."""
    if _is_refusal(error):
        return AddressRefusedError(str(RefusedAddressError()))
    text = _text(error)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return FetchTimeoutError("connecting took longer than fetch.connect_seconds")
        case SilentSiteError():
            return FetchTimeoutError(
                "the answer took longer to begin than fetch.first_byte_seconds"
            )
        case TimeoutError():
            return FetchTimeoutError("the answer took longer than fetch.total_seconds")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return PageGoneError(f"leads to no http or https page: {text}")
        case aiohttp.ClientResponseError():
            said = repr(error.message)[:_MESSAGE_LENGTH]
            return ServerFaultError(f"answered with something that is no HTTP: {said}")
        case aiohttp.ClientPayloadError() | BadCodingError():
            return ServerFaultError(f"the body is broken: {text}")
        case aiohttp.ServerDisconnectedError():
            return ServerFaultError("hung up before it answered")
        case aiohttp.ClientConnectorError():
            return ConnectFailedError(_unconnected(error))
        case ssl.SSLError():
            return ConnectFailedError(f"TLS failed: {text}")
        case OSError(errno=int(code)) if code > 0:
            return ConnectFailedError(f"the connection broke off: {os.strerror(code)}")
        case OSError() | aiohttp.ClientConnectionError():
            return ConnectFailedError(text)
        case ValueError():
            return PageGoneError(f"cannot be asked for: {text}")
        case _:
            return ServerFaultError(text)


def translated_behind_proxy(error: Exception, proxy: URL) -> tuple[FetchError, bool]:
    """The error of a download through a proxy that brought no answer; is it the proxy's fault?

    The proxy is named, without its credentials, and none of what is said is quoted: it may hold
    what the proxy was told, its password included. Silence is laid at the proxy's door, because
    nobody can tell whose it is.
    """
    named = f"the proxy {proxy.with_user(None)}"[:_MESSAGE_LENGTH].rstrip("/")
    if _is_refusal(error):
        return ConnectFailedError(f"{named} has an address that is not public"), True
    match error:
        case aiohttp.ConnectionTimeoutError():
            return FetchTimeoutError(f"connecting through {named} took too long"), True
        case TimeoutError():
            return FetchTimeoutError(f"the answer through {named} took too long"), True
        case aiohttp.ClientProxyConnectionError():
            return ConnectFailedError(f"{named} cannot be connected to"), True
        case aiohttp.ClientHttpProxyError():
            status = error.status
            message = f"{named} answered {status} to CONNECT"
            return ConnectFailedError(message, status=0), status not in _SITE_BEHIND_PROXY
        case aiohttp.ClientConnectorError():
            return ConnectFailedError(f"TLS through {named} failed"), error.host == proxy.host
        case aiohttp.InvalidURL():
            return PageGoneError("leads to no http or https page"), False
        case _:
            return ConnectFailedError(f"{named} hung up, or answered with no HTTP"), True


#: With these a proxy says that the site behind it does not answer.
_SITE_BEHIND_PROXY: Final = frozenset({502, 503, 504})


def _unconnected(error: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, in words; what the system says where there are none for it."""
    place = f"{error.host}:{error.port}"
    match error, error.os_error:
        case aiohttp.ClientConnectorDNSError(), _:
            return f"the host's name is not known: {error.host}"
        case aiohttp.ClientConnectorCertificateError(), _:
            return f"the certificate of {place} is not to be trusted"
        case aiohttp.ClientConnectorSSLError(), _:
            return f"there is no TLS to be had with {place}"
        case _, ConnectionRefusedError():
            return f"nobody listens at {place}"
        case _, ConnectionError():
            return f"{place} hung up"
        case _, OSError(errno=int(code)) if code > 0:
            return f"{place} cannot be connected to: {os.strerror(code)}"
    return f"{place} cannot be connected to"


def _is_refusal(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, RefusedAddressError):
            return True
        error = error.__cause__
    return False


def _text(error: Exception) -> str:
    """What it says, as text that every store can take; a site may have had a hand in it."""
    text = str(error) or type(error).__name__
    return text[:_MESSAGE_LENGTH].encode(errors="replace").decode()

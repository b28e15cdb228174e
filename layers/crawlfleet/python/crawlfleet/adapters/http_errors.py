"""The border to aiohttp: whatever it raises becomes one of our errors, none of its own get past."""

import ssl
from typing import Final

import aiohttp

from crawlfleet.adapters.http_coding import BadCodingError
from crawlfleet.errors import (
    AddressRefusedError,
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    PageGoneError,
    ServerFaultError,
    TooLargeError,
)

_MESSAGE_LENGTH: Final = 300


class RefusedAddressError(OSError):
    """Raised by the socket factory, and wrapped by aiohttp on its way to :func:`translated`.

    One text for every address: aiohttp then reports this error even when it refused several, and
    the tenant does not learn what our name servers say about the inside.
    """

    def __init__(self) -> None:
        super().__init__("the host leads to an address that is not public")


def translated(error: Exception) -> FetchError:
    """The error of ours that one of aiohttp's amounts to, to be raised from it."""
    if _is_refusal(error):
        return AddressRefusedError(str(RefusedAddressError()))
    text = _text(error)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return FetchTimeoutError("connecting took too long")
        case TimeoutError():
            return FetchTimeoutError("the answer took too long")
        case aiohttp.TooManyRedirects():
            return _end_of_redirects(error)
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return PageGoneError(f"leads to no http or https page: {text}")
        case aiohttp.ClientResponseError():
            said = repr(error.message)[:_MESSAGE_LENGTH]
            return ServerFaultError(f"answered with something that is no HTTP: {said}")
        case aiohttp.ClientPayloadError() | BadCodingError():
            return ServerFaultError(f"the body is broken: {text}")
        case aiohttp.ServerDisconnectedError():
            return ServerFaultError("hung up before it answered")
        case OSError() | ssl.SSLError() | aiohttp.ClientConnectionError():
            return ConnectFailedError(text)
        case ValueError():
            return PageGoneError(f"cannot be asked for: {text}")
        case _:
            return ServerFaultError(text)


def _is_refusal(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, RefusedAddressError):
            return True
        error = error.__cause__
    return False


def _end_of_redirects(error: aiohttp.TooManyRedirects) -> FetchError:
    last = error.history[-1]
    if "Location" not in last.headers:
        return PageGoneError(f"answered {last.status}, naming no place", status=last.status)
    return TooLargeError(f"more than {len(error.history) - 1} redirects", status=last.status)


def _text(error: Exception) -> str:
    """What it says, as text that every store can take; a site may have had a hand in it."""
    text = str(error) or type(error).__name__
    return text[:_MESSAGE_LENGTH].encode(errors="replace").decode()

"""Is this something to ask the web for? URL, method and headers, as a tenant wrote them.

Asked at submission, so that a mistake is answered while its author listens, and again by the
fetcher, which trusts no store. Each function returns what is wrong, or None. Where a name leads is
not judged here but at the socket (``policy.address``).
"""

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

MAX_URL_LENGTH: Final = 8_000
#: CONNECT and TRACE speak to proxies, not to pages.
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

#: Headers that belong to the connection or that the client computes; a tenant's are dropped.
CONNECTION_HEADERS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

#: C0 and C1 controls, DEL, and halves of surrogate pairs, which no encoding can carry.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PARTS: Final = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
_HOST_AND_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
_PORT: Final = re.compile(r"[0-9]{1,5}")
#: Beyond ASCII the host is an internationalised name, which the client encodes or refuses.
_HOST: Final = re.compile(r"[A-Za-z0-9._\-\u00a1-\U0010ffff]{1,253}")
_NUMERIC: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_BAD_VALUE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def problem_with(url: str) -> str | None:
    """What keeps ``url`` from being requested, or None.

    >>> problem_with("https://example.org/a?b=c#d") is None
    True
    >>> problem_with("ftp://example.org/")
    'must be an http or https URL'
    """
    if len(url) > MAX_URL_LENGTH:
        return f"must not be longer than {MAX_URL_LENGTH:,} characters"
    if _CONTROL.search(url):
        return "must not contain control characters"
    parts = _PARTS.match(url)
    if parts is None:
        return "must be an http or https URL"
    authority = parts[2]
    if "@" in authority:
        return "must not contain credentials"
    split = _HOST_AND_PORT.fullmatch(authority)
    if split is None:
        return "has no valid host"
    host, port = split[1], split[2]
    if port is not None and not (_PORT.fullmatch(port) and 1 <= int(port) <= 65_535):
        return "has no valid port: 1 to 65535"
    return _problem_with_host(host)


@lru_cache(maxsize=4096)  # a crawl asks of few hosts, often
def _problem_with_host(host: str) -> str | None:
    if host.startswith("["):
        try:
            address = ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return "has no valid IPv6 address as its host"
        return "must not name a network interface" if address.scope_id is not None else None
    if not host:
        return "has no host"
    labels = host.removesuffix(".").split(".")
    if not _HOST.fullmatch(host) or not all(0 < len(label) <= 63 for label in labels):
        return "has no valid host"
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return "has a host that is neither a name nor an IPv4 address in its usual form"
    return None


def problem_with_method(method: str) -> str | None:
    """What is wrong with a request's method, or None.

    >>> problem_with_method("TRACE")
    'must be one of DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT'
    """
    return None if method.upper() in METHODS else f"must be one of {', '.join(sorted(METHODS))}"


def problem_with_headers(headers: Mapping[str, str]) -> str | None:
    r"""What is wrong with a request's headers, or None: no value may end its line.

    >>> problem_with_headers({"X-A": "1\r\nX-B: 2"})
    "'X-A' has a value with control characters"
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            return f"{name[:80]!r} is no header name"
        if _BAD_VALUE.search(value):
            return f"{name!r} has a value with control characters"
    return None

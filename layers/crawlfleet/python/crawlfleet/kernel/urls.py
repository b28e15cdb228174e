"""URLs: which may be asked for, whose they are, and which addresses a worker may connect to (H5).

A URL is judged at submission, so that an error is answered while its author listens, and again by
the fetcher, which trusts no store; each ``problem_with`` function returns what is wrong, or None.

Where a name leads is judged at the socket. A tenant names hosts, and a host's owner names
addresses: both are taken for the attacker. What is judged is therefore the address of each socket,
never a name, so that neither a name server that changes its mind nor an odd spelling gets past. The
tables are our own: the answers of ``ipaddress.is_global`` differ between Python versions.
"""

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta

#: IPv4 that is nobody's website (the IANA special-purpose registry), and what clouds keep there.
_REFUSED_V4: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network; Linux takes 0.0.0.0 for loopback
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; a cloud's metadata at 100.100.100.200
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host agent, on a public address
        "169.254.0.0/16",  # link-local; metadata at 169.254.169.254
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata at 192.0.0.192
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays, retired
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

#: The only IPv6 that is routed in public. Outside lie loopback, private (fc00::/7, with metadata at
#: fd00:ec2::254), link-local, multicast and local NAT64 (64:ff9b:1::/48).
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6: Final = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, Teredo (2001::/32) and ORCHID among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, retired: an IPv4 address in disguise
        "3fff::/20",  # documentation
    )
)

#: IPv6 whose last 32 bits are the IPv4 address that it leads to.
_EMBEDDING: Final = (
    ipaddress.IPv6Network("::ffff:0:0/96"),  # IPv4-mapped
    ipaddress.IPv6Network("64:ff9b::/96"),  # NAT64, by which an IPv6-only subnet reaches IPv4
)


def is_public(address: str) -> bool:
    """Tell whether a stage that allows no private addresses may connect to this one.

    >>> is_public("93.184.215.14"), is_public("169.254.169.254"), is_public("::ffff:10.0.0.1")
    (True, False, False)

    What is no address in its canonical spelling is not public.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return _is_public_v4(ip)
    if any(ip in network for network in _EMBEDDING):
        return _is_public_v4(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return ip in _GLOBAL_V6 and not any(ip in network for network in _REFUSED_V6)


def _is_public_v4(ip: ipaddress.IPv4Address) -> bool:
    return not any(ip in network for network in _REFUSED_V4)


MAX_URL_LENGTH: Final = 8_000
#: CONNECT and TRACE speak to proxies, not to pages.
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

#: Headers that belong to the connection or that the client computes; a tenant's are dropped.
CONNECTION_HEADERS: Final = frozenset(
    [
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("proxy-authenticate", "proxy-authorization", "proxy-connection", "http2-settings"),
        *("content-length", "expect", "host"),
    ]
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
    """Return what keeps ``url`` from being requested, or None.

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
    """Return what is wrong with a request's method, or None.

    >>> problem_with_method("TRACE")
    'must be one of DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT'
    """
    return None if method.upper() in METHODS else f"must be one of {', '.join(sorted(METHODS))}"


def problem_with_headers(headers: Mapping[str, str]) -> str | None:
    r"""Return what is wrong with a request's headers, or None: no value may end its line.

    >>> problem_with_headers({"X-A": "1\r\nX-B: 2"})
    "'X-A' has a value with control characters"
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            return f"{name[:80]!r} is no header name"
        if _BAD_VALUE.search(value):
            return f"{name!r} has a value with control characters"
    return None


Url = Annotated[str, Meta(min_length=1, max_length=8_000)]


def plain_host_of(url: str) -> str:
    """Return the URL's host in lower case, without its port; empty where there is none.

    >>> plain_host_of("https://Shop.Example:8443/a?b")
    'shop.example'
    """
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""

"""Hosts and origins of URLs, as limits, host slots and robots.txt know them."""

import ipaddress
import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

#: A name is no longer in the DNS; what is longer in a URL leads nowhere.
_LONGEST_NAME: Final = 253
#: What stands between the scheme and the path.
_AUTHORITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#\\]*)")
_DELIMITER: Final = re.compile(r"[/?#\\]")
_PLAIN_NAME: Final = re.compile(r"[a-z0-9._-]+")


def host_of(url: str) -> str:
    """Return the host of a URL, as limits, host slots and deferred requests know it.

    Lower case, encoded as the DNS has it, without port, credentials and trailing dot; an IPv6
    address in brackets, in its shortest form. Of what no DNS can hold some text comes that is good
    as a key: the download itself will fail.

    >>> host_of("HTTPS://Bücher.Example.:8443/?q=a:b")
    'xn--bcher-kva.example'
    >>> host_of("http://[2001:DB8:0::1]:80/")
    '[2001:db8::1]'
    """
    found = _AUTHORITY.match(url)
    return "" if found is None else _host(found[1])


@lru_cache(maxsize=8_192)  # a crawl asks of few hosts, often
def _host(authority: str) -> str:
    place = authority.rpartition("@")[2]
    if place.startswith("["):
        inside = place[1:].partition("]")[0]
        try:
            return f"[{ipaddress.IPv6Address(inside).compressed}]"
        except ValueError:
            return f"[{quote(inside.lower(), safe=':', errors='replace')[:_LONGEST_NAME]}]"
    name = unquote(place.partition(":")[0]).lower()
    if not _PLAIN_NAME.fullmatch(name):
        name = _encoded(name)
    return name.removesuffix(".")[:_LONGEST_NAME]


def _encoded(name: str) -> str:
    # Here, because its tables cost a cold start more than most crawls need them.
    import idna

    try:
        found = idna.encode(name, uts46=True).decode("ascii")
    except (UnicodeError, IndexError):
        try:
            found = name.encode("idna").decode("ascii")
        except (UnicodeError, IndexError):
            found = ""
    if _PLAIN_NAME.fullmatch(found):
        return found
    return quote(name[:_LONGEST_NAME], safe="", errors="replace")


def site_of(origin: str) -> str:
    """Return the name of an origin in lists of deferred requests: most are served by https.

    >>> site_of("https://example.org:8443"), site_of("http://example.org")
    ('example.org:8443', 'http://example.org')
    """
    return origin.removeprefix("https://")


def origin_of_site(site: str) -> str:
    """Return the origin of such a name; older versions named the host alone.

    >>> origin_of_site("example.org"), origin_of_site("http://example.org")
    ('https://example.org', 'http://example.org')
    """
    return site if "://" in site else f"https://{site}"


def origin_of(url: str) -> str:
    """Return scheme, host and port: what has one robots.txt. The usual ports are left out.

    >>> origin_of("HTTPS://Example.org.:443/a?b"), origin_of("http://example.org:8080/")
    ('https://example.org', 'http://example.org:8080')
    """
    scheme, _, rest = url.partition("://")
    return _origin(scheme.lower(), _DELIMITER.split(rest, maxsplit=1)[0])


@lru_cache(maxsize=8_192)  # several times a page
def _origin(scheme: str, authority: str) -> str:
    host, authority = host_of(f"{scheme}://{authority}"), authority.rpartition("@")[2]
    port = authority.rpartition("]")[2].rpartition(":")[2] if ":" in authority else ""
    if not port.isdecimal() or (scheme, int(port)) in {("http", 80), ("https", 443)}:
        return f"{scheme}://{host}"
    return f"{scheme}://{host}:{int(port)}"

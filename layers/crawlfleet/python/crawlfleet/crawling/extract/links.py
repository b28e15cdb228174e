"""Make the links of a page absolute, and decide which are followed (SPEC.md, words: rule).

Depth, domain and patterns decide. Patterns come compiled, because whoever applies rules has the
engine that is safe for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urldefrag, urljoin

from crawlfleet.config.documents.rule import Follow, Reach
from crawlfleet.kernel.urls import MAX_URL_LENGTH, problem_with

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

LINKS_MAX: Final = 1_000  #: Links of a page that are followed, over all that its rule says.
#: The key of a link's ``meta`` that says which page of a list it leads to; the first one is 1.
PAGE_META: Final = "list_page"

#: Why a link is not followed.
TOO_DEEP: Final = "deeper than max_depth"
LAST_PAGE: Final = "beyond max_pages"
OTHER_DOMAIN: Final = "outside of domains"
NOT_ALLOWED: Final = "not in allow"
DENIED: Final = "in deny"
NOFOLLOW: Final = "nofollow"
UNUSABLE: Final = "no http(s) URL"
REPEATED: Final = "repeated"
TOO_MANY: Final = "beyond limit"

Search = Callable[[str], bool]  #: Says whether a pattern is found in a URL.


def page_number(meta: Mapping[str, Any]) -> int:
    """Return which page of its list a request's ``meta`` says it is, from 1.

    >>> page_number({}), page_number({"list_page": 3}), page_number({"list_page": "x"})
    (1, 3, 1)
    """
    number = meta.get(PAGE_META, 1)
    return number if isinstance(number, int) and number > 0 else 1


def ended(follow: Follow, depth: int, meta: Mapping[str, Any]) -> str | None:
    """Return why no link at all is followed from a page so deep, or None."""
    if follow.pagination:
        return LAST_PAGE if page_number(meta) >= follow.max_pages else None
    return TOO_DEEP if depth >= follow.max_depth else None


@dataclass(slots=True)
class LinkFilter:
    """The links of one page that may be followed, by their host and then their URL."""

    follow: Follow
    host: str
    allow: Search | None
    deny: Search | None
    _known: dict[str, bool] = field(default_factory=dict, init=False)

    def refusal(self, url: str, host: str) -> str | None:
        """Return why the link is not followed, or None."""
        near = self._known.get(host)
        if near is None:
            near = self._known[host] = within(self.follow.domains, host, self.host)
        if not near:
            return OTHER_DOMAIN
        if self.deny is not None and self.deny(url):
            return DENIED
        if self.allow is not None and not self.allow(url):
            return NOT_ALLOWED
        return None


def within(domains: Reach | tuple[str, ...], host: str, own: str) -> bool:
    """Tell whether ``host`` is near enough, seen from a page at the host ``own``.

    >>> within(Reach.SAME_SITE, "img.shop.co.uk", "www.shop.co.uk")
    True
    >>> within(("shop.example",), "www.shop.example", "a.example")
    True
    """
    if domains is Reach.ANY:
        return True
    if domains is Reach.SAME_HOST:
        return host == own
    if isinstance(domains, Reach):
        return host == own or site_of(host) == site_of(own)
    return any(host == name or host.endswith(f".{name}") for name in domains)


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """Return the registrable domain of a host; an address, or a name without one, is its own.

    >>> site_of("a.b.example.co.uk"), site_of("127.0.0.1"), site_of("localhost")
    ('example.co.uk', '127.0.0.1', 'localhost')
    """
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return _suffixes().privatesuffix(host.rstrip(".")) or host
    return host


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


#: What most links are: a path from the root or from the page's folder, or a whole URL, in
#: characters that stand for themselves and without dots that lead up. The others are taken apart
#: by the standard library.
_SEGMENT: Final = r"(?![/.])[\w\-~:@!$&'()*+,;=%.]*+"
_QUERY: Final = r"(?:\?[\w\-~:@!$&'()*+,;=%.?/]*+)?+"
_PATH: Final = re.compile(rf"(?:/{_SEGMENT})++{_QUERY}", re.ASCII)
_BESIDE: Final = re.compile(rf"\w[\w\-~@!$&'()*+,;=%.]*+(?:/{_SEGMENT})*+{_QUERY}", re.ASCII)
_WHOLE: Final = re.compile(rf"(https?://([a-z0-9.-]+))(?:/{_SEGMENT})++{_QUERY}", re.ASCII)
_NOT_PLAIN: Final = re.compile(r"[^!-~]|[\"<>\\^`{|}]")
_AUTHORITY: Final = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
#: Links that lead to nothing that could be requested; most pages have some.
_NOWHERE: Final = ("#", "javascript:", "mailto:", "tel:", "data:")


def join(base: str, link: str) -> str | None:
    """Join a link with ``base``; None for what is no link at all.

    >>> join("https://example.org/a/b", "../c?q#f")
    'https://example.org/c?q#f'
    >>> join("https://example.org/", "http://[broken") is None
    True
    """
    try:
        return urljoin(base, link.strip())
    except ValueError:
        return None


class Address(NamedTuple):
    """A URL that can be requested, and its host."""

    url: str
    host: str


class Addresses:
    """Links of one page as URLs that can be requested: absolute, http(s), without fragment.

    The host is in lower case, an internationalised one in ASCII; what has to be escaped is.

    >>> addresses = Addresses("https://Shop.example/a/b?c")
    >>> addresses.of("../d e#f"), addresses.of("/g"), addresses.of("HTTP://B.example")
    ('https://shop.example/d%20e', 'https://shop.example/g', 'http://b.example/')
    >>> addresses.of("mailto:me@b.example") is None
    True
    """

    __slots__ = ("_base", "_folder", "_host", "_known", "_origin")

    def __init__(self, base: str) -> None:
        self._base = base
        self._origin = self._folder = ""
        self._known: dict[str, Address | None] = {}
        found = _AUTHORITY.match(base)
        if found is not None and problem_with(found[0]) is None:
            self._origin = f"{found[1].lower()}://{found[2].lower()}"
            path = base[found.end() :].partition("#")[0].partition("?")[0].rpartition("/")[0]
            if not _NOT_PLAIN.search(path) and "/." not in path:
                self._folder = f"{self._origin}{path}/"
        self._host = host_of(self._origin)

    def of(self, link: str) -> str | None:
        """Return the URL, or None where nothing could be requested by it."""
        found = self.find(link)
        return None if found is None else found.url

    def find(self, link: str) -> Address | None:
        """Return the URL with its host, or None where nothing could be requested by it."""
        whole = link
        link = link.partition("#")[0].strip()
        try:
            return self._known[link]
        except KeyError:
            found = self._known[link] = self._made(link or whole)
            return found

    def _made(self, link: str) -> Address | None:
        if len(link) > MAX_URL_LENGTH:
            return None
        if link.startswith("/"):
            if self._origin and _PATH.fullmatch(link):
                return _within_length(self._origin + link, self._host)
        elif link.startswith("http"):
            whole = _WHOLE.fullmatch(link)
            if whole is not None:
                return Address(link, whole[2]) if _sound_origin(whole[1]) else None
        elif self._folder and _BESIDE.fullmatch(link):
            return _within_length(self._folder + link, self._host)
        return self._carefully(link)

    def _carefully(self, link: str) -> Address | None:
        joined = join(self._base, link)
        if joined is None or _AUTHORITY.match(joined) is None:
            return None
        url = urldefrag(joined).url
        if _NOT_PLAIN.search(url):
            from w3lib.url import safe_url_string

            try:
                url = safe_url_string(url)
            except (ValueError, UnicodeError):
                return None
        found = _AUTHORITY.match(url)
        if found is None or problem_with(url) is not None:
            return None
        rest = url[found.end() :]
        slash = "" if rest.startswith("/") else "/"
        origin = f"{found[1].lower()}://{found[2].lower()}"
        return _within_length(f"{origin}{slash}{rest}", host_of(origin))


def _within_length(url: str, host: str) -> Address | None:
    return Address(url, host) if len(url) <= MAX_URL_LENGTH else None


@lru_cache(maxsize=4096)
def _sound_origin(origin: str) -> bool:
    return problem_with(origin) is None


def host_of(url: str) -> str:
    """Return the host of an absolute URL, in lower case.

    >>> host_of("https://Shop.example:8080/a"), host_of("http://[::1]:80/")
    ('shop.example', '[::1]')
    """
    authority = url.partition("://")[2]
    for end in "/?#":
        authority = authority.partition(end)[0]
    authority = authority.rpartition("@")[2].lower()
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.partition(":")[0]


def is_nowhere(link: str) -> bool:
    """Tell whether a link is not meant to be requested.

    >>> is_nowhere("#top"), is_nowhere(" JavaScript:void(0)"), is_nowhere("/top")
    (True, True, False)
    """
    if link[:1] == "#":
        return True
    if ":" not in link[:32] and link[:1] > " ":
        return False
    begin = link[:32].lstrip().lower()
    return not begin or begin.startswith(_NOWHERE)

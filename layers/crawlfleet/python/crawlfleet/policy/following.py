"""Which links of a page are followed: by depth, domain and pattern (SPEC.md, words: rule).

Decided per link from what its rule says and where the page is. Patterns come compiled, because
whoever applies rules has the engine that is safe for them.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from crawlfleet.model.rule import Follow, Reach

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

#: Links of a page that are followed, over all that its rule says.
LINKS_MAX: Final = 1_000
#: Under this name a link's ``meta`` says which page of a list it leads to; the first one is 1.
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

#: Says whether a pattern is found in a URL.
Search = Callable[[str], bool]


def page_number(meta: Mapping[str, Any]) -> int:
    """Which page of its list a request's ``meta`` says it is, from 1.

    >>> page_number({}), page_number({"list_page": 3}), page_number({"list_page": "x"})
    (1, 3, 1)
    """
    number = meta.get(PAGE_META, 1)
    return number if isinstance(number, int) and number > 0 else 1


def ended(follow: Follow, depth: int, meta: Mapping[str, Any]) -> str | None:
    """Why no link at all is followed from a page so deep, or None."""
    if follow.pagination:
        return LAST_PAGE if page_number(meta) >= follow.max_pages else None
    return TOO_DEEP if depth >= follow.max_depth else None


class Way:
    """The links of one page that may be followed, by their host and then their URL."""

    __slots__ = ("_allow", "_deny", "_domains", "_host", "_known")

    def __init__(
        self, follow: Follow, host: str, allow: Search | None, deny: Search | None
    ) -> None:
        self._domains = follow.domains
        self._host = host
        self._allow = allow
        self._deny = deny
        self._known: dict[str, bool] = {}

    def refusal(self, url: str, host: str) -> str | None:
        """Why the link is not followed, or None."""
        near = self._known.get(host)
        if near is None:
            near = self._known[host] = within(self._domains, host, self._host)
        if not near:
            return OTHER_DOMAIN
        if self._deny is not None and self._deny(url):
            return DENIED
        if self._allow is not None and not self._allow(url):
            return NOT_ALLOWED
        return None


def within(domains: Reach | tuple[str, ...], host: str, own: str) -> bool:
    """Whether ``host`` is near enough, seen from a page at the host ``own``.

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
    """The registrable domain of a host; an address, and a name without one, is its own site.

    >>> site_of("a.b.example.co.uk"), site_of("127.0.0.1"), site_of("localhost")
    ('example.co.uk', '127.0.0.1', 'localhost')
    """
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return _suffixes().privatesuffix(host.rstrip(".")) or host
    return host


@cache
def _suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()

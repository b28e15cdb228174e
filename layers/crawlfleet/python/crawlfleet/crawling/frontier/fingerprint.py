"""Make the key of a page, which its URLs share: canonical form and digest (SPEC.md F2).

The form is made in two steps. ``w3lib.url.canonicalize_url`` (of Scrapy's makers) comes first: it
percent-encodes what must be, in upper case, and decodes what need not be; it lowers the host and
writes it in punycode, and IPv6 addresses in their short form; it resolves ``.`` and ``..``, makes
an empty path ``/``, orders parameters by name and value, writes spaces there as ``+``, and ``a`` as
``a=``. What two sites might mean differently it leaves alone: upper case in paths, final slashes.

Then come our own rules. They drop the default port and the final dot of the host; the fragment, but
for ``#!`` (a page of its own to sites that know it); and what says nothing about the page: session
ids, in parameters, after ``;`` in the path, and as ASP.NET's ``(S(...))``; what keeps caches away,
where the value looks like an epoch or a random number; names of JSONP callbacks, where they look
made up; and what advertisers add. A biz's :class:`KeyRules` say what else is to be ignored or kept.

Packages bring resolvers of their own (``resolvers``), which are called as :func:`seed_key` is.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Protocol, TypeAlias
from urllib.parse import unquote_plus

import msgspec
from w3lib.url import canonicalize_url

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.policies import KeyRules
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.requests.models import Body

#: Bytes of a key. Two of a billion URLs share one with a chance of 10^-21.
KEY_BYTES: Final = 16


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN: Final = KeyRules()
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}

#: Only ever session ids, whatever their value.
_SESSIONS: Final = _words(
    """phpsessid jsessionid aspsessionid asp.net_sessionid cfid cftoken sessionid session_id sessid
    oscsid zenid osadcsid xtcsid sesskey session-id"""
)
#: Session ids where the value looks like one: a ``sid`` may as well number a story.
_SHORT_SESSIONS: Final = _words("sid s sess session token_id")
_SESSION_VALUE: Final = re.compile(r"(?=[^&]*\d)[0-9A-Za-z_.,-]{16,256}")
#: Parameters that get past caches, where the value looks like a time or like chance.
_STAMPS: Final = _words("_ t ts _t _ts time timestamp tstamp r cb dt")
_BUSTERS: Final = _words(
    """nocache no_cache no-cache rand random rnd cachebuster cache_buster cachebust cache_bust
    _dc _nocache _random _rand"""
)
#: Seconds from 2001 to 2096, or the same in milliseconds or microseconds, or as a fraction.
_EPOCH: Final = re.compile(r"[1-3]\d{9}(?:\d{3}){0,2}(?:\.\d{1,9})?")
#: What ``Math.random()`` gives.
_CHANCE: Final = re.compile(r"0?\.\d{6,}")
_NUMBER: Final = re.compile(r"\d{1,30}(?:\.\d{1,30})?|[0-9a-f]{8,64}", re.IGNORECASE)
_CALLBACKS: Final = _words(
    "callback jsonp cb jsoncallback jsonpcallback json_callback jsonp_callback _callback"
)
#: jQuery123_456, jsonp12, angular.callbacks._0: a name that ends in a number.
_CALLBACK: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.]{0,200}\d")
_TRACKING: Final = _words(
    """gclid gclsrc dclid gbraid wbraid fbclid msclkid yclid ysclid twclid ttclid igshid igsh
    mc_cid mc_eid _ga _gl _hsenc _hsmi mkt_tok oly_anon_id oly_enc_id vero_id vero_conv wickedid
    li_fat_id epik srsltid s_cid _openstat ref_src spm scm"""
)
_TRACKING_PREFIXES: Final = ("utm_", "pk_", "mtm_", "matomo_", "piwik_")
#: ASP.NET without cookies: ``(S(...))``, also with ``A(...)`` and ``F(...)`` beside it.
_IN_PATH: Final = re.compile(r"\((?:[A-Z]\([^/()]*\))+\)")


class Dropped(msgspec.Struct, frozen=True):
    """A part of a URL that does not count, and why."""

    what: str
    why: str


class Canonical(msgspec.Struct, frozen=True):
    """A URL in the form that its key is made of, and what was dropped on the way."""

    url: str
    dropped: tuple[Dropped, ...] = ()


class SeedKeyResolver(Protocol):
    """Decides what is the same page. A spider may have its own; this module's is the default."""

    def __call__(
        self, url: str, rules: KeyRules = ..., *, method: str = ..., body: bytes | None = ...
    ) -> bytes:
        """Return the key, 16 bytes; raises InvalidRequestError where the URL is none."""
        ...


def seed_key(
    url: str, rules: KeyRules = _PLAIN, *, method: str = "GET", body: bytes | None = None
) -> bytes:
    """Make a page's key: 16 bytes of its canonical form, and of method and body unless it is GET.

    >>> seed_key("http://a.example?b=2&a=1") == seed_key("HTTP://A.example:80/?a=1&b=2&utm_id=7#x")
    True
    """
    content = canonical(url, rules).url.encode()
    if method.upper() != "GET":
        content = b"%s %s\n%s" % (method.upper().encode(), content, body or b"")
    return blake2b(content, digest_size=KEY_BYTES).digest()


#: Returns the resolver of a rule or spider of a biz, by its name.
ResolverOf: TypeAlias = Callable[[Biz, str], SeedKeyResolver]


def default_resolver(_: Biz, __: str) -> SeedKeyResolver:
    """:func:`seed_key`, whatever the rule."""
    return seed_key


def keys_of(url: str, biz: Biz, resolver_of: ResolverOf) -> list[bytes]:
    """List every key that a URL may have in a biz: the default one, and by each of its resolvers.

    Raises InvalidRequestError if it has none at all; says why not by the first of them.
    """
    # One rule stands for all that have the same resolver; no rule is called so.
    rules = {name: rule for rule, name in reversed(biz.seeds.resolvers.items())}
    found: dict[bytes, None] = {}
    failed: InvalidRequestError | None = None
    for rule in ("", *sorted(rules.values())):
        try:
            found[resolver_of(biz, rule)(url, biz.seeds.keys)] = None
        except InvalidRequestError as error:
            failed = failed or error
    if failed is not None and not found:
        raise failed
    return list(found)


def is_page(keys: Iterable[bytes], biz: Biz, resolver_of: ResolverOf) -> Callable[[Body], bool]:
    """Return a test that tells bodies whose URL has one of these keys."""
    wanted = frozenset(keys)

    def has_key(body: Body) -> bool:
        try:
            return resolver_of(biz, body.rule)(body.url, biz.seeds.keys) in wanted
        except InvalidRequestError:
            return False

    return has_key


def canonical(url: str, rules: KeyRules = _PLAIN) -> Canonical:
    """Return the form that all URLs of a page share.

    >>> canonical("https://Shop.example:443/a;jsessionid=1F2/?b=ü&utm_source=x&_=1767225600000").url
    'https://shop.example/a/?b=%C3%BC'
    """
    dropped: list[Dropped] = []
    names = _names(rules)
    try:
        text = canonicalize_url(url, keep_fragments=True)
        text, _, fragment = text.partition("#")
        text, _, query = text.partition("?")
        scheme, _, rest = text.partition("://")
        host, _, path = rest.partition("/")
        # Without its session id a segment may be ``..``, which is to be resolved then.
        while (shorter := "/".join(_segments(path, names, dropped))) != path:
            path = canonicalize_url(f"http://a/{shorter}").removeprefix("http://a/")
    except ValueError as error:
        raise InvalidRequestError.of("url", f"is no URL: {error}") from error

    scheme, host = _origin(scheme, host, rules, dropped)
    text = f"{scheme}://{host}/{path}"
    kept = [pair for pair in query.split("&") if pair and not _is_dropped(pair, names, dropped)]
    if kept:
        text = f"{text}?{'&'.join(kept)}"
    if fragment and (rules.fragment or fragment.startswith("!")):
        text = f"{text}#{fragment}"
    elif fragment:
        dropped.append(Dropped(f"#{fragment}", "fragment"))
    return Canonical(text, tuple(dropped))


class _Patterns:
    """Names of parameters, some of which stand for all that begin so."""

    def __init__(self, patterns: Iterable[str]) -> None:
        lower = [pattern.lower() for pattern in patterns]
        self.names = frozenset(pattern for pattern in lower if not pattern.endswith("*"))
        self.beginnings = tuple(pattern[:-1] for pattern in lower if pattern.endswith("*"))

    def match(self, name: str) -> bool:
        return name in self.names or name.startswith(self.beginnings)

    def __bool__(self) -> bool:
        return bool(self.names or self.beginnings)


class _Names:
    """The rules about parameters, ready to be asked."""

    def __init__(self, rules: KeyRules) -> None:
        self.keep = _Patterns(rules.keep)
        self.ignore = _Patterns(rules.ignore)
        self.only = _Patterns(rules.only)

    def why(self, name: str, value: str) -> str | None:
        """Return why a parameter does not count, or None if it does."""
        if self.keep.match(name):
            return None
        if self.ignore.match(name):
            return "ignored by the biz"
        if self.only:
            return None if self.only.match(name) else "none of those that count"
        return _reason(name, value)


_names: Final = lru_cache(maxsize=256)(_Names)


def _reason(name: str, value: str) -> str | None:
    """Return why a parameter says nothing about any page."""
    if name in _TRACKING or name.startswith(_TRACKING_PREFIXES):
        return "tracking"
    if _is_session(name, value):
        return "session id"
    if name in _STAMPS and (_EPOCH.fullmatch(value) or _CHANCE.fullmatch(value)):
        return "time stamp"
    if name in _BUSTERS and (_NUMBER.fullmatch(value) or _CHANCE.fullmatch(value)):
        return "random number"
    if name in _CALLBACKS and _CALLBACK.fullmatch(value):
        return "JSONP callback"
    return None


def _is_session(name: str, value: str) -> bool:
    if name in _SESSIONS or name.startswith("aspsessionid"):
        return True
    return name in _SHORT_SESSIONS and _SESSION_VALUE.fullmatch(value) is not None


def _is_dropped(pair: str, names: _Names, dropped: list[Dropped]) -> bool:
    name, _, value = pair.partition("=")
    why = names.why(unquote_plus(name).lower(), unquote_plus(value))
    if why is not None:
        dropped.append(Dropped(pair, why))
    return why is not None


def _segments(path: str, names: _Names, dropped: list[Dropped]) -> Iterator[str]:
    """Give the path's segments without session ids."""
    for segment in path.split("/"):
        parts = segment.split(";")
        kept = parts[:1]
        for part in parts[1:]:
            name, _, value = part.partition("=")
            name = unquote_plus(name).lower()
            if _is_session(name, value) and not names.keep.match(name):
                dropped.append(Dropped(f";{part}", "session id"))
            else:
                kept.append(part)
        text = ";".join(kept)
        if _IN_PATH.fullmatch(text):
            dropped.append(Dropped(f"/{text}", "session id"))
        else:
            yield text


def _origin(scheme: str, host: str, rules: KeyRules, dropped: list[Dropped]) -> tuple[str, str]:
    """Return scheme and host as they count."""
    before = host
    for port in _DEFAULT_PORTS.values() if rules.ignore_scheme else (_DEFAULT_PORTS.get(scheme),):
        if port is not None:
            host = host.removesuffix(port)
    if host != before:
        dropped.append(Dropped(before[len(host) :], "default port"))
    name, colon, port = (host, "", "") if host.endswith("]") else host.partition(":")
    if not host.startswith("[") and "@" not in host:
        bare = name.rstrip(".")
        if bare != name:
            dropped.append(Dropped(".", "final dot of the host"))
        while rules.ignore_www and bare.startswith("www.") and bare.count(".") > 1:
            bare = bare.removeprefix("www.")
            dropped.append(Dropped("www.", "ignored by the biz"))
        host = f"{bare}{colon}{port}"
    if rules.ignore_scheme and scheme == "https":
        dropped.append(Dropped("https", "http and https are one to the biz"))
        scheme = "http"
    return scheme, host

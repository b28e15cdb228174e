"""Choose the proxy of a download from its pool (SPEC.md C9).

The pools are read from their secrets; which of their proxies are left out while they fail is
decided in :mod:`crawlfleet.crawling.fetching.proxy_health`. Where the fleet leaves all of them out
requests wait. The user and the password in a proxy's URL go into one header and nowhere else: no
error, no log line, no report and no answer quotes them.
"""

import asyncio
import hashlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import encode_basic_auth
from yarl import URL

from crawlfleet.config.documents.biz import ProxyPool, Rotation
from crawlfleet.crawling.fetching.models import FetchContext
from crawlfleet.crawling.fetching.proxy_exchange import ProxyExchange
from crawlfleet.crawling.fetching.proxy_health import Fault, place_of
from crawlfleet.crawling.fetching.secrets import AGAIN_SECONDS, FRESH_SECONDS, why_unread
from crawlfleet.kernel.errors import NoProxyError
from crawlfleet.kernel.urls import problem_with

_log: Final = logging.getLogger(__name__)

#: Proxies of one pool, and pools remembered.
MAX_PROXIES: Final = 1_000
_MAX_POOLS: Final = 256


#: Requests wait at least, and at most, for so long where the fleet leaves out all of a pool.
_SHORTEST_WAIT, _LONGEST_WAIT = 2.0, 30.0


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """A proxy: its URL without credentials, and the header that holds them.

    ``key`` tells it apart from others of its list, for all who read that: by its address and its
    user, and of those that have both in common by their order. A digest of a password could be
    searched for it, so none is taken.
    """

    url: URL
    authorization: str | None
    key: str

    def __repr__(self) -> str:
        return "Proxy(...)"


def parse_proxies(text: str) -> tuple[list[Proxy], int]:
    r"""Parse a list of proxies, one URL a line; count the lines that are none.

    Empty lines and those that begin with ``#`` are skipped.

    >>> proxies, wrong = parse_proxies("http://me:secret@10.0.0.1:3128\nsocks5://a:1\n# old")
    >>> str(proxies[0].url), wrong
    ('http://10.0.0.1:3128', 1)
    """
    found: list[Proxy] = []
    same: Counter[tuple[str, str]] = Counter()
    wrong = 0
    for line in text.splitlines():
        line = line.strip()  # noqa: PLW2901  as it was meant
        if not line or line.startswith("#"):
            continue
        proxy = _proxy(line, same)
        if proxy is None or len(found) >= MAX_PROXIES:
            wrong += 1
        else:
            found.append(proxy)
    return found, wrong


def _proxy(line: str, same: Counter[tuple[str, str]]) -> Proxy | None:
    try:
        url = URL(line)
        plain = url.with_user(None).with_path("").with_query(None).with_fragment(None)
        if problem_with(str(plain)) is not None:
            return None
        user = str(plain), url.user or ""
        same[user] += 1
        named = " ".join((*user, str(same[user]))).encode("utf-8", "replace")
        key = hashlib.blake2b(named, digest_size=8).hexdigest()
        if url.user is None and url.password is None:
            return Proxy(plain, None, key)
        return Proxy(plain, encode_basic_auth(url.user or "", url.password or ""), key)
    except ValueError:
        return None


@dataclass(slots=True, eq=False)
class ProxyRoute:
    """The proxy of one download; it takes the outcome of each hop."""

    proxy: Proxy
    _pool: ProxyPool
    _list: "_List"
    _exchange: ProxyExchange
    _began: float

    @property
    def allow_private(self) -> bool:
        """Tell whether the proxy itself may have a private address."""
        return self._pool.allow_private

    @property
    def resolves_names(self) -> bool:
        """Tell whether the proxy looks up the names of targets itself."""
        return self._pool.resolves_names

    def begin(self) -> None:
        """Begin a hop."""
        self._began = self._exchange.clock()

    def succeeded(self, host: str) -> None:
        """Forget the proxy's failures: it brought an answer."""
        self._exchange.succeeded(self._list.pool, self.proxy.key, host, self._began)

    def failed(self, host: str, fault: Fault) -> None:
        """Count a failure of the proxy; where it takes our credentials no more, read the list.

        They may have been changed.
        """
        if fault is Fault.CREDENTIALS:
            self._list.read_again(AGAIN_SECONDS)
        pool, key = self._list.pool, self.proxy.key
        self._exchange.failed(pool, self._pool, key, host, self._began, fault)


class _List:
    """A pool's proxies."""

    def __init__(self, pool: str) -> None:
        self.pool = pool
        self.proxies: list[Proxy] = []
        self.keys: list[str] = []
        self.fault = ""
        self.next_number = 0
        self.read_at = self.stale_at = float("-inf")
        self.lock = asyncio.Lock()

    def read_again(self, after_seconds: float) -> None:
        """Read the list with the next download, but not within so long of the last time."""
        self.stale_at = min(self.stale_at, self.read_at + after_seconds)

    def take(self, proxies: list[Proxy], exchange: ProxyExchange) -> None:
        """Use these proxies from now on; keep the standings of those that stay as they were."""
        before = {proxy.key: proxy.authorization for proxy in self.proxies}
        self.proxies, self.keys = proxies, [proxy.key for proxy in proxies]
        exchange.listed(
            self.pool,
            {proxy.key: str(proxy.url).rstrip("/") for proxy in proxies},
            [
                one.key
                for one in proxies
                if before.get(one.key, one.authorization) != one.authorization
            ],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Proxies:
    """The pools of a fetcher. ``read_secret`` is called in a thread, and may raise anything."""

    read_secret: Callable[[str], str] | None
    exchange: ProxyExchange = field(default_factory=ProxyExchange)
    _lists: OrderedDict[tuple[str | None, str], _List] = field(default_factory=OrderedDict)

    async def route(self, fetch_context: FetchContext, host: str) -> ProxyRoute | None:
        """Choose the proxy of a download, or None where the context names no pool.

        Raises NoProxyError if the pool has none, or they cannot be read, or the fleet leaves all of
        them out; says which and why.
        """
        pool = fetch_context.proxies
        if pool is None:
            return None
        known = await self._list(fetch_context.pool, pool)
        if not known.proxies:
            raise NoProxyError(
                f"the pool of proxies {fetch_context.pool!r} has none: the secret {pool.secret!r} "
                f"{known.fault}; it must hold their URLs, one a line, and is read again every "
                f"{AGAIN_SECONDS:g} s",
                again_seconds=AGAIN_SECONDS,
            )
        count, each_job = len(known.proxies), pool.rotation is Rotation.EACH_JOB
        if each_job:
            queue_key = fetch_context.queue_key
            whose = (queue_key.tenant, queue_key.biz) if queue_key is not None else ()
            first = place_of(" ".join((*whose, fetch_context.job or "", host)), count)
        else:
            first, known.next_number = known.next_number % count, known.next_number + 1
        # A job keeps its own: for a try of another one it does not change.
        keys, tries_first = known.keys, not each_job
        number = self.exchange.choose(known.pool, keys, first, tries_first=tries_first)
        if number is None:
            back = self.exchange.back_seconds(known.pool, keys)
            raise NoProxyError(
                f"none of the {count} proxies of the pool {fetch_context.pool!r} works: all "
                "workers leave them out, and one of them tries each again from time to time",
                again_seconds=min(max(back, _SHORTEST_WAIT), _LONGEST_WAIT),
            )
        return ProxyRoute(known.proxies[number], pool, known, self.exchange, self.exchange.clock())

    async def _list(self, name: str | None, pool: ProxyPool) -> _List:
        key = name, pool.secret
        known = self._lists.get(key)
        if known is None:
            known = self._lists[key] = _List(name or "")
            while len(self._lists) > _MAX_POOLS:
                self._lists.popitem(last=False)
        if self.exchange.clock() >= known.stale_at:
            async with known.lock:
                if self.exchange.clock() >= known.stale_at:
                    await self._read(name, pool, known)
        return known

    async def _read(self, name: str | None, pool: ProxyPool, known: _List) -> None:
        known.read_at = self.exchange.clock()
        known.stale_at = known.read_at + AGAIN_SECONDS
        about = {"pool": name, "secret": pool.secret}
        if self.read_secret is None:
            known.fault = "is read by nothing here"
            _log.error("a pool of proxies is asked for, and nothing here reads its secret")
            return
        try:
            text = await asyncio.to_thread(self.read_secret, pool.secret)
        except Exception as error:  # noqa: BLE001  whatever reads it; and its text may quote it
            known.fault = f"cannot be read: {why_unread(error)}"
            _log.warning(
                "the proxies of pool %r cannot be read, secret %r: %s",
                *(name, pool.secret, why_unread(error)),
                extra=about,
            )
            return
        proxies, wrong = parse_proxies(text)
        if wrong:
            _log.warning("%d lines of a list of proxies are no proxies", wrong, extra=about)
        known.take(proxies, self.exchange)
        if proxies:
            known.stale_at = known.read_at + FRESH_SECONDS
            return
        known.fault = f"has no proxies in it, and {wrong} lines that are none"
        _log.warning("the pool %r has no proxies: its secret %r has none", name, pool.secret)

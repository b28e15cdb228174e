"""Choose the proxy of a download from its pool; cool proxies down while they fail (SPEC.md C9).

The pools are read from their secrets. Where all proxies of a pool cool down, the one that is back
first is used: a slow proxy is better than none. The user and the password in a proxy's URL go into
one header and nowhere else: no error, no log line and no answer quotes them.
"""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from aiohttp import encode_basic_auth
from yarl import URL

from crawlfleet.config.documents.biz import ProxyPool, Rotation
from crawlfleet.crawling.fetching.models import FetchContext
from crawlfleet.kernel.aws.clients import WRONG_SETUP
from crawlfleet.kernel.errors import ConfigError, NoProxyError, StoreUnavailableError
from crawlfleet.kernel.urls import problem_with

LONGEST_COOL_DOWN_SECONDS: Final = 3_600.0


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy's ``failures`` in a row, and its ``cool_downs`` since it last succeeded."""

    failures: int = 0
    cool_downs: int = 0
    cool_down_until: float = float("-inf")


NEW: Final = Standing()


def after_failure(standing: Standing, pool: ProxyPool, now: float) -> Standing:
    """Count a failure of a proxy; at ``max_failures`` in a row it cools down.

    What fails during a cool-down began before it, and does not extend it. The first failure after
    a cool-down begins another one, twice as long.
    """
    if now < standing.cool_down_until:
        return standing
    failures = standing.failures + 1
    if not standing.cool_downs and failures < pool.max_failures:
        return msgspec.structs.replace(standing, failures=failures)
    doubled = pool.rest_seconds * 2.0 ** min(standing.cool_downs, 32)
    longest = max(LONGEST_COOL_DOWN_SECONDS, pool.rest_seconds)
    return Standing(
        failures=failures,
        cool_downs=standing.cool_downs + 1,
        cool_down_until=now + min(doubled, longest),
    )


def chosen(standings: Sequence[Standing], first: int, now: float) -> int:
    """Choose the first proxy from ``first`` on, in a ring, that is not cooling down.

    >>> chosen([NEW, Standing(cool_down_until=9.0), NEW], 1, 5.0)
    2
    >>> chosen([Standing(cool_down_until=9.0), Standing(cool_down_until=7.0)], 0, 5.0)
    1
    """
    count = len(standings)
    for step in range(count):
        number = (first + step) % count
        if standings[number].cool_down_until <= now:
            return number
    return min(range(count), key=lambda number: standings[number].cool_down_until)


def place_of(key: str, count: int) -> int:
    """Get the number, below ``count``, that is always the same for one key.

    >>> place_of("job host", 3) == place_of("job host", 3)
    True
    """
    digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest) % count


_log: Final = logging.getLogger(__name__)

#: How long a list is used before it is read again, and how soon after a failure to read it.
FRESH_SECONDS: Final = 300.0
AGAIN_SECONDS: Final = 15.0
#: Proxies of one pool, and pools remembered.
MAX_PROXIES: Final = 1_000
_MAX_POOLS: Final = 256


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """A proxy: its URL without credentials, and the header that holds them."""

    url: URL
    authorization: str | None

    def __repr__(self) -> str:
        return "Proxy(...)"

    @property
    def identity(self) -> tuple[str, str | None]:
        """Identify the proxy over two readings of a list."""
        return str(self.url), self.authorization


def parse_proxies(text: str) -> tuple[list[Proxy], int]:
    r"""Parse a list of proxies, one URL a line; count the lines that are none.

    Empty lines and those that begin with ``#`` are skipped.

    >>> proxies, wrong = parse_proxies("http://me:secret@10.0.0.1:3128\nsocks5://a:1\n# old")
    >>> str(proxies[0].url), wrong
    ('http://10.0.0.1:3128', 1)
    """
    found: list[Proxy] = []
    wrong = 0
    for line in text.splitlines():
        line = line.strip()  # noqa: PLW2901  as it was meant
        if not line or line.startswith("#"):
            continue
        proxy = _proxy(line)
        if proxy is None or len(found) >= MAX_PROXIES:
            wrong += 1
        else:
            found.append(proxy)
    return found, wrong


def _proxy(line: str) -> Proxy | None:
    try:
        url = URL(line)
        plain = url.with_user(None).with_path("").with_query(None).with_fragment(None)
        if problem_with(str(plain)) is not None:
            return None
        if url.user is None and url.password is None:
            return Proxy(plain, None)
        return Proxy(plain, encode_basic_auth(url.user or "", url.password or ""))
    except ValueError:
        return None


class ProxyRoute:
    """The proxy of one download; it takes the outcome."""

    __slots__ = ("_list", "_pool", "proxy")

    def __init__(self, proxy: Proxy, pool: ProxyPool, of: "_List") -> None:
        self.proxy = proxy
        self._pool = pool
        self._list = of

    @property
    def allow_private(self) -> bool:
        """Tell whether the proxy itself may have a private address."""
        return self._pool.allow_private

    def succeeded(self) -> None:
        """Forget the proxy's failures: it brought an answer."""
        self._list.standings.pop(self.proxy.identity, None)

    def failed(self) -> None:
        """Count a failure of the proxy."""
        identity = self.proxy.identity
        standing = self._list.standings.get(identity, NEW)
        self._list.standings[identity] = after_failure(standing, self._pool, self._list.clock())

    def refused_us(self) -> None:
        """Count refused credentials, and read the list again: they may have been changed."""
        self._list.read_again(AGAIN_SECONDS)
        self.failed()


class _List:
    """A pool's proxies and their standings."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.proxies: list[Proxy] = []
        self.fault = ""
        self.standings: dict[tuple[str, str | None], Standing] = {}
        self.next_number = 0
        self.read_at = float("-inf")
        self.stale_at = float("-inf")
        self.lock = asyncio.Lock()

    def read_again(self, after_seconds: float) -> None:
        """Read the list with the next download, but not within so long of the last time."""
        self.stale_at = min(self.stale_at, self.read_at + after_seconds)

    def take(self, proxies: list[Proxy]) -> None:
        """Use these proxies from now on; keep the standings of those that stay."""
        self.proxies = proxies
        known = {proxy.identity for proxy in proxies}
        self.standings = {key: value for key, value in self.standings.items() if key in known}


class Proxies:
    """The pools of a fetcher.

    Args:
        read_secret: Reads the text of a secret; called in a thread, may raise anything.
        clock: Steady seconds.
    """

    def __init__(
        self,
        read_secret: Callable[[str], str] | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_secret = read_secret
        self._clock = clock
        self._lists: OrderedDict[tuple[str | None, str], _List] = OrderedDict()

    async def route(self, fetch_context: FetchContext, host: str) -> ProxyRoute | None:
        """Choose the proxy of a download, or None where the context names no pool.

        Raises:
            NoProxyError: the pool has no proxies, or they cannot be read; says which and why.
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
        count = len(known.proxies)
        if pool.rotation is Rotation.EACH_JOB:
            queue_key = fetch_context.queue_key
            whose = (queue_key.tenant, queue_key.biz) if queue_key is not None else ()
            first = place_of(" ".join((*whose, fetch_context.job or "", host)), count)
        else:
            first, known.next_number = known.next_number % count, known.next_number + 1
        if known.standings:
            standings = [known.standings.get(proxy.identity, NEW) for proxy in known.proxies]
            first = chosen(standings, first, self._clock())
        return ProxyRoute(known.proxies[first], pool, known)

    async def _list(self, name: str | None, pool: ProxyPool) -> _List:
        key = name, pool.secret
        known = self._lists.get(key)
        if known is None:
            known = self._lists[key] = _List(self._clock)
            while len(self._lists) > _MAX_POOLS:
                self._lists.popitem(last=False)
        if self._clock() >= known.stale_at:
            async with known.lock:
                if self._clock() >= known.stale_at:
                    await self._read(name, pool, known)
        return known

    async def _read(self, name: str | None, pool: ProxyPool, known: _List) -> None:
        known.read_at = self._clock()
        known.stale_at = known.read_at + AGAIN_SECONDS
        about = {"pool": name, "secret": pool.secret}
        if self._read_secret is None:
            known.fault = "is read by nothing here"
            _log.error("a pool of proxies is asked for, and nothing here reads its secret")
            return
        try:
            text = await asyncio.to_thread(self._read_secret, pool.secret)
        except Exception as error:  # noqa: BLE001  whatever reads it; and its text may quote it
            known.fault = f"cannot be read: {_why(error)}"
            _log.warning(
                "the proxies of pool %r cannot be read, secret %r: %s",
                *(name, pool.secret, _why(error)),
                extra=about,
            )
            return
        proxies, wrong = parse_proxies(text)
        if wrong:
            _log.warning("%d lines of a list of proxies are no proxies", wrong, extra=about)
        known.take(proxies)
        if proxies:
            known.stale_at = known.read_at + FRESH_SECONDS
            return
        known.fault = f"has no proxies in it, and {wrong} lines that are none"
        _log.warning("the pool %r has no proxies: its secret %r has none", name, pool.secret)


def _why(error: Exception) -> str:
    """Explain why a secret cannot be read, without its error's text, which may quote it."""
    if isinstance(error, ConfigError):
        known = [each.message for each in error.problems if each.message in WRONG_SETUP.values()]
        if known:
            return known[0]
    if isinstance(error, StoreUnavailableError):
        return "the store of secrets does not answer"
    return type(error).__name__
